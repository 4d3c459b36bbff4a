package launch

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/weft-network/weft/pkg/acllog"
	"github.com/weft-network/weft/pkg/install/member"
)

// integrationBridge is the bridge that ovn-controller creates.
const integrationBridge = "br-int"

// Leftovers are filepath.Glob patterns of the files that this package's programs leave behind when they end. Programs
// remove their own sockets and pid files.
var Leftovers = []string{
	"/var/lib/ovn/ovn?b_db.db*", "/var/lib/ovn/.ovn?b_db.db*", "/var/lib/ovn/members.json*", "/var/lib/ovn/zone-*",
	OVNRun + "/ovn?b_db.json", OVNRun + "/" + member.RelayFiles + ".json", OVNRun + "/member-*", OVNRun + "/" + acllog.File + "*",
	OVSRun + "/conf.db*", OVSRun + "/.conf.db*", OVSRun + "/ovsdb-server.json", IdentityDir + "/*",
}

// Clear removes from the host what these programs would leave behind when they end: the integration bridge and the
// files of leftovers. The programs must still run. If Open vSwitch has a foreign bridge, Clear changes nothing and
// returns an error.
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
