package attach

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weft-network/weft/pkg/agent/bindings"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/ovn/names"
)

// Sandboxes compares the attachments with the runtime's sandboxes, because runtimes may never send GC. It removes an
// attachment if its pod has no port on this node, the runtime does not list its sandbox, and it is older than the
// collector's delay.
//
// It compares at the start, after a pod's port was removed, and after the southbound database has connected, each time
// after the delay. While an attachment without a port is left, it repeats the comparison after the delay. Otherwise it
// sleeps.
//
// An attachment whose sandbox the runtime does not list also loses its host ports, even if its pod has a port: see
// IsLost.
type Sandboxes struct {
	collector *Collector
	bindings  *bindings.Bindings
	list      sandboxLister
	requested chan struct{}                 // has one place
	exposes   func(interfaceID string) bool // reports whether an attachment has host ports
	changed   func()                        // is called when a result of IsLost changes

	mu   sync.Mutex
	lost map[string]bool // sandboxes with host ports that the runtime does not list
}

// sandboxLister lists the runtime's sandboxes, by ID.
type sandboxLister func(context.Context) (map[string]bool, error)

// NewSandboxes returns Sandboxes that compare with list. If list is nil, they compare nothing. exposes reports whether an
// attachment has host ports. changed is called when a result of IsLost changes.
func NewSandboxes(c *Collector, b *bindings.Bindings, list sandboxLister, exposes func(string) bool, changed func()) *Sandboxes {
	return &Sandboxes{
		collector: c, bindings: b, list: list, requested: make(chan struct{}, 1), exposes: exposes, changed: changed,
	}
}

// Request requests a comparison after the delay. It never blocks.
func (w *Sandboxes) Request() {
	select {
	case w.requested <- struct{}{}:
	default: // a comparison is already requested
	}
}

// Run compares until ctx ends. Without a list it does nothing.
func (w *Sandboxes) Run(ctx context.Context) error {
	if w.list == nil {
		return nil
	}
	w.Request()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.requested:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(w.collector.delay):
		}
		again, err := w.compare(ctx)
		if err != nil && ctx.Err() == nil {
			w.collector.log.Error(err, "cannot compare the attachments with the runtime's sandboxes; retrying")
		}
		if again || err != nil {
			w.Request()
		}
	}
}

// compare removes the attachments that are left over. again reports that an attachment has no port but must not be
// removed yet.
func (w *Sandboxes) compare(ctx context.Context) (again bool, err error) {
	portless, exposed := w.portless(), w.exposed()
	if portless == 0 && len(exposed) == 0 {
		w.setLost(nil)
		return false, nil
	}
	sandboxes, err := w.list(ctx)
	if err != nil {
		return true, err
	}
	w.setLost(slices.DeleteFunc(exposed, func(sandbox string) bool { return sandboxes[sandbox] }))
	removed, err := w.collector.collect(ctx, reasonSandbox, func(a desired.Attachment) bool {
		return !sandboxes[a.ContainerID] && w.isPortless(a)
	})
	return removed < portless, err
}

// portless returns the number of attachments whose pod has no port on this node.
func (w *Sandboxes) portless() (count int) {
	for _, have := range w.collector.attachments.All() {
		if w.isPortless(have.Attachment) {
			count++
		}
	}
	return count
}

// exposed returns the sandboxes of attachments with host ports that are old enough to be in the runtime's list.
func (w *Sandboxes) exposed() (sandboxes []string) {
	for _, have := range w.collector.attachments.All() {
		if w.exposes(have.InterfaceID) && time.Since(have.since) >= w.collector.delay {
			sandboxes = append(sandboxes, have.ContainerID)
		}
	}
	return sandboxes
}

// IsLost reports whether the sandbox has host ports and was missing in the runtime's last list.
func (w *Sandboxes) IsLost(sandbox string) bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost[sandbox]
}

func (w *Sandboxes) setLost(sandboxes []string) {
	lost := make(map[string]bool, len(sandboxes))
	for _, sandbox := range sandboxes {
		lost[sandbox] = true
	}
	w.mu.Lock()
	same := maps.Equal(w.lost, lost)
	w.lost = lost
	w.mu.Unlock()
	if !same {
		w.changed()
	}
}

// isPortless reports whether the attachment's pod has no port on this node. It is false while the southbound database is
// disconnected. The next connection requests another comparison.
func (w *Sandboxes) isPortless(a desired.Attachment) bool {
	binding, ok := w.bindings.Find(a.InterfaceID)
	return w.bindings.Connected() && (!ok || binding.Options[names.InterfaceVersion] != a.PodUID)
}
