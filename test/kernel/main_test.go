package kernel_test

import (
	"os"
	"testing"

	"github.com/weft-network/weft/test/kernel/guest"
)

// TestMain makes the test's own program PID 1 of the kernels that it boots.
func TestMain(m *testing.M) {
	if guest.IsGuest() {
		guest.Main()
	}
	os.Exit(m.Run())
}
