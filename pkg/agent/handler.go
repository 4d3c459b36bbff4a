package agent

import (
	"context"
	"time"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/cni"
	"github.com/weft-network/weft/pkg/cniwire"
	"github.com/weft-network/weft/pkg/names"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/vswitchdb"
)

// cniHandler answers the runtime. It waits for events of two databases and never for a timer.
//
//	ADD ─▶ Port_Binding of the pod's UID ─▶ veth ─▶ Interface in one transaction ─▶ ovn-installed ─▶ result
type cniHandler struct {
	southbound  *southbound
	attachments *attachments
	ovs         *ovndb.Engine
	state       *nodeState
	counted     func()
	links       chan struct{} // as many places as links are made or removed at once
	collector   *collector
	controller  *daemon
	vswitchd    *daemon
	// grace is how long STATUS does not tell that ovn-controller or the southbound database is away.
	grace   time.Duration
	node    string
	clocks  *stageClocks
	passed  func(point string)
	observe func(stage string, took time.Duration)             // of each stage of an ADD that succeeded
	failed  func(req cniwire.Request, stage string, why error) // of an ADD that did not
}

// Del implements cniserver.Handler: what is gone is no error. Before the record is read, the DEL waits for that in a tombstone.
func (h *cniHandler) Del(ctx context.Context, req cniwire.Request) error {
	if !h.attachments.ready() {
		if done, err := h.attachments.bury(req); done || err != nil {
			return err
		}
	}
	port := ""
	if req.Args.PodName != "" {
		port = names.PodPort(names.DefaultNetwork, req.Args.PodNamespace, req.Args.PodName)
	}
	if err := h.attachments.remove(ctx, port, req.ContainerID, req.IfName); err != nil {
		return err
	}
	h.counted()
	h.passed("DEL record")
	if err := h.detach(ctx, req); err != nil {
		return err
	}
	h.passed("DEL link")
	return h.attachments.tombstones.Remove(req.ContainerID, req.IfName)
}

// detach removes the link when it is its turn: the kernel does one after the other anyway, and each would take a thread, which Go keeps.
func (h *cniHandler) detach(ctx context.Context, req cniwire.Request) error {
	select {
	case h.links <- struct{}{}:
		defer func() { <-h.links }()
	case <-ctx.Done():
		return cniwire.Errorf(cniwire.CodeTryAgainLater, "interface %s of container %s: %d other links are being made or removed", req.IfName,
			req.ContainerID, maxLinks)
	}
	return cni.Detach(req.ContainerID, req.IfName)
}

// Check implements cniserver.Handler: the interface is the sandbox's, its flows are there, and its port is this pod's.
func (h *cniHandler) Check(_ context.Context, req cniwire.Request) error {
	if err := h.attachable(); err != nil {
		return err
	}
	port := names.PodPort(names.DefaultNetwork, req.Args.PodNamespace, req.Args.PodName)
	have, ok := h.attachments.get(port)
	if !ok || have.ContainerID != req.ContainerID || have.IfName != req.IfName {
		return cniwire.Errorf(cniwire.CodeUnknownContainer, "port %s: sandbox %s has no interface %s", port, req.ContainerID, req.IfName)
	}
	have.NetNS = req.NetNS
	return h.verify(have)
}

// verify says what an attachment lacks, from the caches and the links.
func (h *cniHandler) verify(have desired.Attachment) error {
	port := have.InterfaceID
	row, ok := ovndb.Get[vswitchdb.Interface](h.ovs.Conn, desired.AttachmentInterfaceUUID(have))
	if !ok || !desired.Installed(row) {
		return cniwire.Errorf(cniwire.CodeInternal, "port %s: its flows are not in Open vSwitch", port)
	}
	binding, ok := h.southbound.binding(port)
	if !ok || binding.Options["iface-id-ver"] != have.PodUID {
		return cniwire.Errorf(cniwire.CodeInternal, "port %s: the southbound database does not have it for pod UID %s", port, have.PodUID)
	}
	spec, mtu, datapath := h.state.forPods()
	vif, err := desired.NewVIF(binding, spec)
	if err != nil {
		return err
	}
	return cni.Verify(podInterface(have.ContainerID, have.NetNS, have.IfName, vif, mtu, datapath))
}
