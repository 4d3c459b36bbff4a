package hostnet_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/test/isolation"
)

func TestMain(m *testing.M) {
	os.Exit(isolation.Run(unix.CLONE_NEWNET, func() int {
		code := m.Run()
		if err := goleak.Find(); code == 0 && err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}))
}
