package cniwire

import (
	"fmt"

	"github.com/containernetworking/cni/pkg/types"
)

// Error is a CNI error: a code of the specification, a message and details. The CNI library prints it for the
// runtime.
type Error = types.Error

// The codes of the CNI specification 1.1.0, section 5.
const (
	CodeUnknownContainer   = types.ErrUnknownContainer            // 3: nothing to clean up
	CodeInvalidEnvironment = types.ErrInvalidEnvironmentVariables // 4: a CNI_ variable is missing or invalid
	CodeIOFailure          = types.ErrIOFailure                   // 5
	CodeDecodingFailure    = types.ErrDecodingFailure             // 6: unexpected JSON
	CodeInvalidConfig      = types.ErrInvalidNetworkConfig        // 7
	CodeInvalidNetNS       = types.ErrInvalidNetNS                // 8: libcni's addition
	CodeTryAgainLater      = types.ErrTryAgainLater               // 11
	CodeNotAvailable       = 50                                   // STATUS: the plugin cannot serve ADD
	CodeLimited            = 51                                   // STATUS: as 50, and existing containers may lack connectivity
	CodeInternal           = types.ErrInternal                    // 999: Weft's; a failure of the system, not of the caller
)

// Errorf returns an error with this code and a message formatted as by fmt.Errorf.
func Errorf(code uint, format string, args ...any) *Error {
	return types.NewError(code, fmt.Sprintf(format, args...), "")
}
