package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// integrationBridge is the one that ovn-controller makes.
const integrationBridge = "br-int"

// Leftovers are the files that programs of this package leave when they end: patterns, of filepath.Glob. Sockets and pid files go with their program.
var Leftovers = []string{
	"/var/lib/ovn/ovn?b_db.db*", "/var/lib/ovn/.ovn?b_db.db*", OVNRun + "/ovn?b_db.json",
	OVSRun + "/conf.db*", OVSRun + "/.conf.db*", OVSRun + "/ovsdb-server.json", IdentityDir + "/*",
}

// Clear takes off a host what these programs have made and would leave when they end, while they still run. A bridge of somebody else, which would
// end with Open vSwitch, stops it before anything is changed.
func Clear(ctx context.Context, leftovers []string) error {
	out, err := vsctl(ctx, "list-br")
	if err != nil {
		return err
	}
	for _, bridge := range strings.Fields(out) {
		if bridge != integrationBridge {
			return fmt.Errorf("bridge %s is not Weft's, and would end with its Open vSwitch: move what it has elsewhere, and delete it", bridge)
		}
	}
	if _, err := vsctl(ctx, "--if-exists", "del-br", integrationBridge); err != nil { // returns when its devices are gone
		return err
	}
	var failed []error
	for _, pattern := range leftovers {
		files, err := filepath.Glob(pattern)
		failed = append(failed, err)
		for _, file := range files {
			failed = append(failed, os.RemoveAll(file))
		}
	}
	return errors.Join(failed...)
}

func vsctl(ctx context.Context, args ...string) (string, error) {
	args = append([]string{"--db=unix:" + OVSRun + "/db.sock", "--timeout=30"}, args...)
	out, err := exec.CommandContext(ctx, "ovs-vsctl", args...).Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(failed.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("ovs-vsctl %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}
