package agent

import (
	"context"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-logr/logr"

	"github.com/weft-network/weft/pkg/acllog"
	"github.com/weft-network/weft/pkg/agent/follow"
	"github.com/weft-network/weft/pkg/names"
	"github.com/weft-network/weft/pkg/unixctl"
)

// maxACLLog is how large ovn-controller's log of ACLs gets, in bytes: its folder is in memory.
const maxACLLog = 1 << 20

// decisions tells what policies decided on this node, in the agent's log: ovn-controller writes it to a file.
type decisions struct {
	dir         string // ovn-controller's run directory; empty: it is not known
	attachments *attachments
	log         logr.Logger
}

// run tells until ctx ends.
func (d *decisions) run(ctx context.Context) error {
	if d.dir == "" {
		return nil
	}
	file := follow.File{Path: filepath.Join(d.dir, acllog.File), Line: d.tell, Max: maxACLLog, Reopen: func(ctx context.Context) error {
		socket, err := unixctl.Socket(d.dir, "ovn-controller")
		if err != nil {
			return err
		}
		_, err = unixctl.Call(ctx, socket, "vlog/reopen")
		return err
	}}
	for ctx.Err() == nil {
		if err := file.Run(ctx); err != nil { // pods do not depend on it
			d.log.Error(err, "what policies decide is not told for a moment")
		}
		select {
		case <-ctx.Done():
		case <-time.After(daemonRetry):
		}
	}
	return nil
}

// tell says a line of the log in words. Of pods, this node's are known by name.
func (d *decisions) tell(line string) {
	decision, err := acllog.Parse(line)
	if err != nil {
		d.log.V(1).Info("not told", "reason", err.Error())
		return
	}
	d.log.Info(decision.Text(d.podWith), acllog.Key, decision)
}

// podWith is the pod of this node that has an address.
func (d *decisions) podWith(address netip.Addr) string {
	for _, have := range d.attachments.all() {
		if namespace, pod, ok := names.ParsePodPort(have.InterfaceID); ok && slices.Contains(have.Addresses, address) {
			return namespace + "/" + pod
		}
	}
	return ""
}
