package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weft-network/weft/pkg/agent/cniserver"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/cni"
	"github.com/weft-network/weft/pkg/cniwire"
	"github.com/weft-network/weft/pkg/names"
)

// listDelay is how long a sandbox may be unknown to the lists of a runtime after its ADD: containerd lists one only when its shim runs,
// and kubelet gives the whole creation 2 minutes.
const listDelay = 2 * time.Minute

// Why an attachment was collected.
const (
	reasonGC      = "gc"      // the runtime's list did not have it
	reasonSandbox = "sandbox" // neither its pod's port nor its sandbox exists
	// Its DEL came while no agent ran.
	reasonTombstone = "tombstone"
)

// collector removes attachments whose DEL never came. A younger one than listDelay, and one of a pod with a request under way, stays:
// what chose it may not have known of it.
type collector struct {
	attachments *attachments
	turns       *cniserver.Turns
	delay       time.Duration // listDelay, shorter in tests
	log         logr.Logger
	counted     func()
	collected   func(reason string) // for metrics
}

func newCollector(a *attachments, turns *cniserver.Turns, o Options, counted func()) *collector {
	return &collector{attachments: a, turns: turns, delay: cmp.Or(o.ListDelay, listDelay), log: ctrl.Log.WithName("collector"), counted: counted,
		collected: o.ObserveCollected}
}

// collect removes what stale chooses and returns how many. It goes on after a failure.
func (c *collector) collect(ctx context.Context, reason string, stale func(desired.Attachment) bool) (removed int, failures error) {
	for _, have := range c.attachments.all() {
		if time.Since(have.since) < c.delay || !stale(have.Attachment) {
			continue
		}
		gone, err := c.remove(ctx, have.Attachment)
		failures = errors.Join(failures, err)
		if gone {
			removed++
			c.told(have.Attachment, reason)
		}
	}
	if removed > 0 {
		c.counted()
	}
	return removed, failures
}

// told counts and logs one that was removed.
func (c *collector) told(a desired.Attachment, reason string) {
	c.collected(reason)
	c.log.Info("Removed an attachment without a DEL", "port", a.InterfaceID, "container", a.ContainerID, "reason", reason)
}

// remove takes one attachment away while no request of its pod is under way.
func (c *collector) remove(ctx context.Context, a desired.Attachment) (gone bool, err error) {
	namespace, pod, ok := names.ParsePodPort(a.InterfaceID)
	if !ok {
		return false, nil
	}
	done, ok := c.turns.Try(namespace, pod)
	if !ok {
		return false, nil
	}
	defer done()
	err = errors.Join(c.attachments.remove(ctx, a.InterfaceID, a.ContainerID, a.IfName), cni.Detach(a.ContainerID, a.IfName))
	if err != nil {
		return false, fmt.Errorf("port %s: sandbox %s: %w", a.InterfaceID, a.ContainerID, err)
	}
	return true, nil
}

// GC implements cniserver.Handler: what the runtime does not list of its network goes. Without a list nothing does.
func (h *cniHandler) GC(ctx context.Context, req cniwire.Request) error {
	config, err := cniwire.ParseConfig(req.Config)
	if err != nil || config.ValidAttachments == nil {
		return err
	}
	if !h.attachments.ready() {
		return cniwire.Errorf(cniwire.CodeTryAgainLater, "the agent has not read its record from Open vSwitch yet")
	}
	valid := make(map[cniwire.Attachment]bool, len(config.ValidAttachments))
	for _, a := range config.ValidAttachments {
		valid[a] = true
	}
	_, err = h.collector.collect(ctx, reasonGC, func(a desired.Attachment) bool {
		return a.Network == config.Name && !valid[cniwire.Attachment{ContainerID: a.ContainerID, IfName: a.IfName}]
	})
	return err
}
