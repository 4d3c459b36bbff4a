package capture

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/test/isolation"
)

func TestMain(m *testing.M) { os.Exit(isolation.Run(unix.CLONE_NEWNET, m.Run)) }
