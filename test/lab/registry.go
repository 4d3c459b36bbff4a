package lab

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/weft-network/weft/test/lab/initd"
	"github.com/weft-network/weft/test/lab/pki"
	"github.com/weft-network/weft/test/lab/tools"
)

// ReleaseVariable is the variable of the environment with UpOptions.Release, for those who bring a lab up without that option.
const ReleaseVariable = "WEFT_LAB_RELEASE"

// release is a folder that "make release" has made. The lab's registry, on a machine outside, has its image, and the nodes pull it from
// there, by the name in its manifests.
type release string

// image returns the image's registry and repository, without tag and digest.
func (r release) image() (registry, repository string, err error) {
	file := filepath.Join(string(r), "image.txt")
	text, err := os.ReadFile(file)
	if err != nil {
		return "", "", fmt.Errorf("no release: %w", err)
	}
	tagged, _, _ := strings.Cut(strings.TrimSpace(string(text)), "@")
	registry, path, ok := strings.Cut(tagged, "/")
	if !ok {
		return "", "", fmt.Errorf("%s: %q has no registry", file, text)
	}
	repository, _, _ = strings.Cut(path, ":")
	return registry, repository, nil
}

const registryPort = 5000

// registryAt is where the lab's registry listens.
func registryAt() netip.AddrPort { return netip.AddrPortFrom(Outside().IPv4.Addr(), registryPort) }

func registryCertificate() certificate {
	return certificate{"registry", pki.Subject{Name: "registry", Addresses: []netip.Addr{registryAt().Addr()}}, false}
}

func (c *Cluster) releaseProgram() string { return filepath.Join(c.Dir, "weft-release") }

// buildRegistry builds the registry, which is of a module of its own, for a release.
func (u *bringUp) buildRegistry(ctx context.Context) error {
	if u.options.Release == "" {
		return nil
	}
	source, err := tools.SourceRoot()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", u.releaseProgram(), "./cmd/weft-release")
	cmd.Dir, cmd.Env = filepath.Join(source, "test", "release"), append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, text)
	}
	return nil
}

// registry runs the registry.
func (c *Cluster) registry() initd.Step {
	pair := filepath.Join(c.pkiDir(), registryCertificate().file)
	return initd.Step{Name: "registry", Daemon: true, Ready: "tcp:" + registryAt().String(), Argv: []string{c.releaseProgram(), "serve",
		"-listen", registryAt().String(), "-cert", pair + ".crt", "-key", pair + ".key",
		"-out", filepath.Join(c.machineDir(Outside().Name), "registry")}}
}

// pullsFrom is the configuration of a node's containerd that finds the image's registry in the lab's.
func (c *Cluster) pullsFrom(r release) (initd.File, error) {
	name, _, err := r.image()
	return initd.File{Path: filepath.Join(registryConfigs, name, "hosts.toml"), Content: fmt.Sprintf(`[host."https://%s"]
  capabilities = ["pull", "resolve"]
  ca = %q
`, registryAt(), filepath.Join(c.pkiDir(), "ca.crt"))}, err
}

// push pushes the release's image to the lab's registry, as "make push" does, from the control plane's network. It reads the folder as
// this machine has it.
func (c *Cluster) push(ctx context.Context, r release) error {
	_, repository, err := r.image()
	if err != nil {
		return err
	}
	cmd := c.NetworkCommand(ctx, c.releaseProgram(), "push", "-out", string(r), "-to", registryAt().String()+"/"+repository)
	// Neither a proxy nor a login of this machine.
	cmd.Env = []string{"HOME=" + c.Dir, "SSL_CERT_FILE=" + filepath.Join(c.pkiDir(), "ca.crt")}
	_, err = output(cmd, "push "+string(r))
	return err
}
