package agent

import (
	"context"
	"time"

	"github.com/weft-network/weft/pkg/agent/desired"
)

// sandboxWatch compares the attachments with the runtime's sandboxes, since runtimes may never send GC. An attachment goes if its pod
// has no port on this node any more, the runtime does not list its sandbox, and it is older than the collector's delay.
//
// It looks when a pod's port went, when the southbound database is connected, and at the start, each time after the delay; and again
// after the delay as long as an attachment without a port is left. With none it sleeps.
type sandboxWatch struct {
	collector  *collector
	southbound *southbound
	list       func(context.Context) (map[string]bool, error) // the runtime's sandboxes, by ID
	asked      chan struct{}                                  // of one place
}

func newSandboxWatch(c *collector, s *southbound, list func(context.Context) (map[string]bool, error)) *sandboxWatch {
	return &sandboxWatch{collector: c, southbound: s, list: list, asked: make(chan struct{}, 1)}
}

// ask has it look after the delay. It never blocks.
func (w *sandboxWatch) ask() {
	select {
	case w.asked <- struct{}{}:
	default: // it will look anyway
	}
}

// run looks until ctx ends; without a list it has nothing to look at.
func (w *sandboxWatch) run(ctx context.Context) error {
	if w.list == nil {
		return nil
	}
	w.ask()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.asked:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(w.collector.delay):
		}
		again, err := w.look(ctx)
		if err != nil && ctx.Err() == nil {
			w.collector.log.Error(err, "Could not compare the attachments with the runtime's sandboxes")
		}
		if again || err != nil {
			w.ask()
		}
	}
}

// look removes what is left over. again says that an attachment has no port but is not to be removed yet.
func (w *sandboxWatch) look(ctx context.Context) (again bool, err error) {
	portless := w.portless()
	if portless == 0 {
		return false, nil
	}
	sandboxes, err := w.list(ctx)
	if err != nil {
		return true, err
	}
	removed, err := w.collector.collect(ctx, reasonSandbox, func(a desired.Attachment) bool {
		return !sandboxes[a.ContainerID] && w.isPortless(a)
	})
	return removed < portless, err
}

// portless counts the attachments whose pod has no port on this node.
func (w *sandboxWatch) portless() (count int) {
	for _, have := range w.collector.attachments.all() {
		if w.isPortless(have.Attachment) {
			count++
		}
	}
	return count
}

// isPortless is false while the southbound database cannot tell: its connection asks again.
func (w *sandboxWatch) isPortless(a desired.Attachment) bool {
	binding, ok := w.southbound.binding(a.InterfaceID)
	return w.southbound.connected() && (!ok || binding.Options["iface-id-ver"] != a.PodUID)
}
