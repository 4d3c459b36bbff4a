package attach

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
	"github.com/weft-network/weft/pkg/cni/cniwire"
	"github.com/weft-network/weft/pkg/ovn/names"
)

// listDelay is how long a runtime's lists may lack a sandbox after its ADD. containerd lists a sandbox only when its
// shim runs, and kubelet allows 2 minutes for the whole creation.
const listDelay = 2 * time.Minute

// Reasons for the collection of an attachment.
const (
	reasonGC        = "gc"        // the runtime's list did not have it
	reasonSandbox   = "sandbox"   // neither its pod's port nor its sandbox exists
	reasonTombstone = "tombstone" // its DEL came while no agent ran
)

// Collector removes attachments whose DEL never came. It keeps an attachment that is younger than its delay, or whose
// pod has a request under way, because a list without it may be older than the attachment.
type Collector struct {
	// Secondary removes the secondary interfaces of a sandbox; nil: sandboxes have no secondary interfaces.
	Secondary Secondary

	attachments *Attachments
	turns       *cniserver.Turns
	delay       time.Duration // listDelay; shorter in tests
	log         logr.Logger
	counted     func()
	collected   func(reason string) // for metrics
}

// NewCollector returns a collector. An attachment must be older than delay before its absence from a list counts; the default
// is 2 minutes. collected receives the reason for each removal. counted is called after removals.
func NewCollector(a *Attachments, turns *cniserver.Turns, delay time.Duration, counted func(), collected func(reason string)) *Collector {
	return &Collector{
		attachments: a, turns: turns, delay: cmp.Or(delay, listDelay), log: ctrl.Log.WithName("collector"),
		counted: counted, collected: collected,
	}
}

// collect removes the attachments that stale selects and returns their number. It continues after a failure.
func (c *Collector) collect(ctx context.Context, reason string, stale func(desired.Attachment) bool) (removed int, failures error) {
	for _, have := range c.attachments.All() {
		if time.Since(have.since) < c.delay || !stale(have.Attachment) {
			continue
		}
		gone, err := c.remove(ctx, have.Attachment)
		failures = errors.Join(failures, err)
		if gone {
			removed++
			c.report(have.Attachment, reason)
		}
	}
	if removed > 0 {
		c.counted()
	}
	return removed, failures
}

// Buried reports an attachment whose DEL came while no agent ran.
func (c *Collector) Buried(a desired.Attachment) { c.report(a, reasonTombstone) }

// report counts and logs an attachment that was removed.
func (c *Collector) report(a desired.Attachment, reason string) {
	c.collected(reason)
	c.log.Info("Removed an attachment without a DEL", "port", a.InterfaceID, "container", a.ContainerID, "reason", reason)
}

// remove removes an attachment unless a request of its pod is under way.
func (c *Collector) remove(ctx context.Context, a desired.Attachment) (gone bool, err error) {
	namespace, pod, ok := names.PodOfPort(a.InterfaceID)
	if !ok {
		return false, nil
	}
	done, ok := c.turns.Try(namespace, pod)
	if !ok {
		return false, nil
	}
	defer done()
	if _, _, ofCluster := names.ParsePodPort(a.InterfaceID); ofCluster && c.Secondary != nil {
		if err := c.Secondary.Detach(ctx, a.ContainerID); err != nil {
			return false, fmt.Errorf("port %s: sandbox %s: %w", a.InterfaceID, a.ContainerID, err)
		}
	}
	err = errors.Join(c.attachments.remove(ctx, a.InterfaceID, a.ContainerID, a.IfName), cni.Detach(a.ContainerID, a.IfName))
	if err != nil {
		return false, fmt.Errorf("port %s: sandbox %s: %w", a.InterfaceID, a.ContainerID, err)
	}
	return true, nil
}

// GC implements cniserver.Handler. It removes attachments of the request's network that the runtime does not list.
// Without a list it removes none.
func (h *Handler) GC(ctx context.Context, req cniwire.Request) error {
	config, err := cniwire.ParseConfig(req.Config)
	if err != nil || config.ValidAttachments == nil {
		return err
	}
	if !h.Attachments.Ready() {
		return cniwire.Errorf(cniwire.CodeTryAgainLater, "the agent has not read its record from Open vSwitch yet")
	}
	valid := make(map[cniwire.Attachment]bool, len(config.ValidAttachments))
	for _, a := range config.ValidAttachments {
		valid[a] = true
	}
	_, err = h.Collector.collect(ctx, reasonGC, func(a desired.Attachment) bool {
		return a.Network == config.Name && !valid[cniwire.Attachment{ContainerID: a.ContainerID, IfName: a.IfName}]
	})
	if h.Secondary == nil || config.Network != "" {
		return err
	}
	return errors.Join(err, h.Secondary.Collect(ctx))
}
