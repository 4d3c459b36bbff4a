package launch

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/weft-network/weft/pkg/acllog"
)

// integrationBridge is the one that ovn-controller makes.
const integrationBridge = "br-int"

// Leftovers are the files that programs of this package leave when they end: patterns, of filepath.Glob. Sockets and pid files go with their program.
var Leftovers = []string{
	"/var/lib/ovn/ovn?b_db.db*", "/var/lib/ovn/.ovn?b_db.db*", "/var/lib/ovn/members.json*", OVNRun + "/ovn?b_db.json", OVNRun + "/member-*", OVNRun + "/" + acllog.File + "*",
	OVSRun + "/conf.db*", OVSRun + "/.conf.db*", OVSRun + "/ovsdb-server.json", IdentityDir + "/*",
}

// Clear takes off a host what these programs have made and would leave when they end, while they still run. A bridge of somebody else, which would
// end with Open vSwitch, stops it before anything is changed.
func Clear(ctx context.Context, leftovers []string) error {
	if err := clearBridges(ctx, "unix:"+OVSRun+"/db.sock"); err != nil {
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
