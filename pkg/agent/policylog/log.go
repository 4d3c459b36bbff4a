// Package policylog logs and counts what policies decide on a node.
package policylog

import (
	"context"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"

	"github.com/weft-network/weft/pkg/acllog"
	"github.com/weft-network/weft/pkg/agent/follow"
	"github.com/weft-network/weft/pkg/ovn/unixctl"
)

// maxACLLog is the size in bytes at which ovn-controller's ACL log is replaced. The log's directory is in memory.
const maxACLLog = 1 << 20

// retry is the time between attempts to read the log.
const retry = time.Second

// Log copies the decisions of policies on this node from ovn-controller's file to the agent's log.
type Log struct {
	// Dir is ovn-controller's run directory. If empty, Log copies nothing.
	Dir string
	// PodAt returns the pod of this node that has an address, as "namespace/name", or an empty string.
	PodAt func(netip.Addr) string
	Log   logr.Logger
}

// Run copies decisions until ctx ends.
func (l *Log) Run(ctx context.Context) error {
	if l.Dir == "" {
		return nil
	}
	reopen := func(ctx context.Context) error {
		socket, err := unixctl.Socket(l.Dir, "ovn-controller")
		if err != nil {
			return err
		}
		_, err = unixctl.Call(ctx, socket, "vlog/reopen")
		return err
	}
	file := follow.File{Path: filepath.Join(l.Dir, acllog.File), Line: l.copy, Max: maxACLLog, Reopen: reopen}
	for ctx.Err() == nil {
		if err := file.Run(ctx); err != nil { // does not end the agent, because pods do not depend on this log
			l.Log.Error(err, "cannot stream policy decisions; retrying")
		}
		select {
		case <-ctx.Done():
		case <-time.After(retry):
		}
	}
	return nil
}

// copy logs a line as a sentence with the names of this node's pods.
func (l *Log) copy(line string) {
	decision, err := acllog.Parse(line)
	if err != nil {
		l.Log.V(1).Info("cannot parse a line as a policy decision; skipping it", "reason", err.Error())
		return
	}
	l.Log.Info(decision.Text(l.PodAt), acllog.Key, decision)
}
