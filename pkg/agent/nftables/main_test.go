package nftables_test

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/test/isolation"
	"github.com/weft-network/weft/test/lab/tools"
)

// TestMain runs the tests in a network namespace.
func TestMain(m *testing.M) {
	if err := tools.OnPath("nft"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(isolation.Run(unix.CLONE_NEWNET, m.Run))
}
