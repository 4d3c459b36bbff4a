package attach

import (
	"context"
	"time"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/cni/cniwire"
)

// Status implements cniserver.Handler. It answers from the caches: code 51 if existing pods are affected, and code 50 if
// only new pods are. ADD does not depend on it, because a pod with an address can be attached although the node is full.
// A short absence of ovn-controller or the southbound database, as during their replacement, is not a failure: an ADD
// waits for them, and with a failure the runtime would mark the node as not ready.
//
// A new agent waits up to startWait for its connections. Otherwise a STATUS that comes in these first tenths of a second, while an agent
// is replaced, would make a node not ready, and with it its addresses and routes would move.
func (h *Handler) Status(ctx context.Context, _ cniwire.Request) error {
	for {
		changed := h.State.next() // before status reads the state, so that no change is missed
		err := h.status()
		wait := time.Until(h.started.Add(startWait))
		if err == nil || h.settled.Load() || wait <= 0 {
			h.settled.Store(true)
			return err
		}
		select {
		case <-changed:
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}

// startWait is how long the first STATUS of an agent may wait.
const startWait = 5 * time.Second

func (h *Handler) status() error {
	if _, err := h.Switch.State(); err != nil && h.OVS.Connected() {
		return cniwire.Errorf(cniwire.CodeLimited, "%v: the switch is not kept, and on the userspace datapath forwards nothing", err)
	}
	if _, err := h.Controller.State(); err != nil && h.OVS.Connected() && !h.Controller.BrieflyAway(h.Grace) {
		return cniwire.Errorf(cniwire.CodeLimited, "%v: flows stay as they are", err)
	}
	if h.OVS.Connected() && h.Bindings.BrieflyAway(h.Grace) {
		return nil
	}
	if err := h.attachable(); err != nil {
		return err
	}
	if !h.Bindings.Registered() {
		return cniwire.Errorf(cniwire.CodeNotAvailable, "ovn-controller has not registered chassis %s", h.Bindings.SystemID())
	}
	spec, _, _ := h.State.forPods()
	if counts := desired.AddressCounts(spec, h.Bindings.Pods()); counts != nil && counts.Free <= 0 {
		return cniwire.Errorf(cniwire.CodeNotAvailable, "no address is left in %v: %d of %d are used",
			spec.PodSubnets, counts.Used, counts.Total)
	}
	return nil
}

// attachable returns an error while the node cannot serve ADD and CHECK.
func (h *Handler) attachable() error {
	spec, _, _ := h.State.forPods()
	switch {
	case !h.OVS.Connected():
		return cniwire.Errorf(cniwire.CodeLimited, "the database server of Open vSwitch does not answer")
	case !h.Bindings.Connected():
		return cniwire.Errorf(cniwire.CodeLimited,
			"the OVN southbound database is not connected: changes elsewhere do not reach this node")
	case !h.Attachments.Ready():
		return cniwire.Errorf(cniwire.CodeNotAvailable, "the agent has not read its record from Open vSwitch yet")
	case !h.State.hasNodeNetwork():
		return cniwire.Errorf(cniwire.CodeNotAvailable, "the operator has not made NodeNetwork %s yet", h.Node)
	case len(spec.PodSubnets) == 0:
		return cniwire.Errorf(cniwire.CodeNotAvailable, "the operator has not given this node a pod subnet yet")
	}
	return nil
}
