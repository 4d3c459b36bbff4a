package tools

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// hostPackage is a Debian package for the machine itself.
type hostPackage struct {
	proof string // a program or a file that shows that the package is installed
	name  string
}

// hostPackages are for the lab and the tests.
var hostPackages = []hostPackage{
	{"ip", "iproute2"},
	{"nft", "nftables"},
	{"gcc", "gcc"},
	{"pkg-config", "pkg-config"},
	{"/usr/include/seccomp.h", "libseccomp-dev"},
}

// InstallHostPackages installs missing packages. Without root it only reports them.
func InstallHostPackages(ctx context.Context) error { return installOnHost(ctx, hostPackages) }

func installOnHost(ctx context.Context, packages []hostPackage) error {
	var missing []string
	for _, p := range packages {
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
