package agent

import (
	"context"
	"time"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/cniwire"
)

// Status implements cniserver.Handler. It answers from what the agent knows anyway: code 51 where existing pods miss something too,
// 50 where only new ones would. ADD does not ask it: a pod that has its address may come although the node is full. ovn-controller or the southbound
// database that is away for a moment, as while it is replaced, is no news: an ADD waits for it, and the runtime would make its nodes not ready.
func (h *cniHandler) Status(context.Context, cniwire.Request) error {
	if _, err := h.vswitchd.state(); err != nil && h.ovs.Connected() {
		return cniwire.Errorf(cniwire.CodeLimited, "%v: the switch is not kept, and on the userspace datapath forwards nothing", err)
	}
	if _, err := h.controller.state(); err != nil && h.ovs.Connected() && !h.controller.absence.shorterThan(h.grace, time.Now()) {
		return cniwire.Errorf(cniwire.CodeLimited, "%v: flows stay as they are", err)
	}
	if h.ovs.Connected() && h.southbound.absence.shorterThan(h.grace, time.Now()) {
		return nil
	}
	if err := h.attachable(); err != nil {
		return err
	}
	if !h.southbound.registered() {
		return cniwire.Errorf(cniwire.CodeNotAvailable, "ovn-controller has not registered chassis %s", h.southbound.systemID)
	}
	spec, _, _ := h.state.forPods()
	if counts := desired.AddressCounts(spec, h.southbound.pods()); counts != nil && counts.Free <= 0 {
		return cniwire.Errorf(cniwire.CodeNotAvailable, "no address is left in %v: %d of %d are used", spec.PodSubnets, counts.Used, counts.Total)
	}
	return nil
}

// attachable says what ADD has to wait for, and CHECK cannot look at things without.
func (h *cniHandler) attachable() error {
	spec, _, _ := h.state.forPods()
	switch {
	case !h.ovs.Connected():
		return cniwire.Errorf(cniwire.CodeLimited, "the database server of Open vSwitch does not answer")
	case !h.southbound.connected():
		return cniwire.Errorf(cniwire.CodeLimited, "the OVN southbound database is not connected: changes elsewhere do not reach this node")
	case !h.attachments.ready():
		return cniwire.Errorf(cniwire.CodeNotAvailable, "the agent has not read its record from Open vSwitch yet")
	case !h.state.isKnown():
		return cniwire.Errorf(cniwire.CodeNotAvailable, "the operator has not made NodeNetwork %s yet", h.node)
	case len(spec.PodSubnets) == 0:
		return cniwire.Errorf(cniwire.CodeNotAvailable, "the operator has not given this node a pod subnet yet")
	}
	return nil
}
