package tools

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// hostPackages are Debian packages for the machine itself: a file that shows that the package is installed, and its
// name.
var hostPackages = []struct{ proof, name string }{
	{"ip", "iproute2"},
	{"nft", "nftables"},
	{"gcc", "gcc"},
	{"pkg-config", "pkg-config"},
	{"/usr/include/seccomp.h", "libseccomp-dev"},
}

// InstallHostPackages installs missing packages. Without root it only reports them.
func InstallHostPackages(ctx context.Context) error {
	var missing []string
	for _, p := range hostPackages {
		if !present(p.proof) {
			missing = append(missing, p.name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("missing packages: install %s", strings.Join(missing, " "))
	}
	env := []string{"DEBIAN_FRONTEND=noninteractive"}
	if err := run(ctx, "/", env, "apt-get", "update", "-qq"); err != nil {
		return err
	}
	return run(ctx, "/", env, "apt-get", append([]string{"install", "-y", "--no-install-recommends"}, missing...)...)
}

func present(proof string) bool {
	if filepath.IsAbs(proof) {
		_, err := os.Stat(proof)
		return err == nil
	}
	_, err := exec.LookPath(proof)
	return err == nil
}
