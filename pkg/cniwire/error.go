package cniwire

import (
	"fmt"

	"github.com/containernetworking/cni/pkg/types"
)

// Error is a CNI error: a code of the specification, a message and details. It
// is the type that the CNI library prints for the runtime.
type Error = types.Error

// The codes of the CNI specification 1.1.0, section 5.
const (
	CodeUnknownContainer   = types.ErrUnknownContainer            // 3: nothing to clean up
	CodeInvalidEnvironment = types.ErrInvalidEnvironmentVariables // 4: a CNI_ variable is missing or wrong
	CodeIOFailure          = types.ErrIOFailure                   // 5
	CodeDecodingFailure    = types.ErrDecodingFailure             // 6: not the JSON that was expected
	CodeInvalidConfig      = types.ErrInvalidNetworkConfig        // 7
	CodeInvalidNetNS       = types.ErrInvalidNetNS                // 8: libcni's addition
	CodeTryAgainLater      = types.ErrTryAgainLater               // 11
	CodeNotAvailable       = 50                                   // STATUS: the plugin cannot serve ADD
	CodeLimited            = 51                                   // STATUS: and existing containers may be cut off
	CodeInternal           = types.ErrInternal                    // 999: ours; a failure of the system, not of the caller
)

// Errorf makes an error of that code. Its text names the thing, as fmt.Errorf's does.
func Errorf(code uint, format string, args ...any) *Error {
	return types.NewError(code, fmt.Sprintf(format, args...), "")
}
