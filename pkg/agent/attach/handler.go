// Package attach attaches pods: it answers the runtime's CNI requests and keeps the record of the pods' interfaces in
// Open vSwitch. It also removes interfaces whose DEL never came, and periodically checks the others.
package attach

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weft-network/weft/pkg/agent/bindings"
	"github.com/weft-network/weft/pkg/agent/daemon"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/cni"
	"github.com/weft-network/weft/pkg/cni/cniwire"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/sbdb"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ovndb"
)

const (
	// undoTimeout limits the undoing of a failed ADD.
	undoTimeout = 10 * time.Second
	// releaseTimeout limits how long the operator and ovn-controller may take to release an interface that is unplugged.
	releaseTimeout = 2 * time.Second
	// maxLinks limits the links that are made at once. The kernel makes them one after the other, and each blocks a thread.
	maxLinks = 16
)

// Options are the parts that a Handler uses.
type Options struct {
	Node        string
	OVS         *ovndb.Engine // of the Open_vSwitch database
	Bindings    *bindings.Bindings
	Attachments *Attachments
	State       *State
	Collector   *Collector
	// Controller is ovn-controller, and Switch is ovs-vswitchd.
	Controller, Switch *daemon.Daemon
	// Foreign are the hosts that answered for addresses of pods.
	Foreign *ForeignHosts
	// Counted is called when the number of attachments may have changed.
	Counted func()
	// Secondary attaches what pods request beside the cluster network; nil: nothing.
	Secondary Secondary
	// HostPorts gives pods random host ports; nil: none.
	HostPorts HostPorts
	// Grace is how long ovn-controller and the southbound database may be disconnected before STATUS reports it.
	Grace time.Duration
	// Running ends with the agent. It outlives a request.
	Running context.Context
	// Failpoint is called at each point of a request, such as "ADD link" or "DEL record", before the request goes on, and
	// when an ADD waits, with the reason. Tests delay a request or end the agent there.
	Failpoint func(point string)
	// Observe receives the duration of each stage of an ADD that succeeded. Failed receives the stage at which an ADD
	// failed.
	Observe func(stage string, took time.Duration)
	Failed  func(req cniwire.Request, stage string, why error)
}

// Handler answers the runtime's requests. It waits for events of two databases, never for a timer; only
// the first STATUS of an agent gives up after a time.
//
//	ADD ─▶ Port_Binding of the pod's UID ─▶ veth ─▶ Interface in one transaction ─▶ ovn-installed ─▶ result
type Handler struct {
	Options
	links   chan struct{} // a semaphore of maxLinks places
	clocks  *stageClocks
	started time.Time
	settled atomic.Bool // a STATUS was answered
}

// NewHandler returns a handler. Its Bound must receive the changes of bindings.
func NewHandler(o Options) *Handler {
	return &Handler{Options: o, links: make(chan struct{}, maxLinks), clocks: newStageClocks(), started: time.Now()}
}

// Bound receives a binding that has changed.
func (h *Handler) Bound(binding *sbdb.PortBinding) { h.clocks.bound(binding) }

// Del implements cniserver.Handler. A missing interface is not an error. Until the record has been read, Del stores the
// request as a tombstone.
func (h *Handler) Del(ctx context.Context, req cniwire.Request) error {
	if !h.Attachments.Ready() {
		if done, err := h.Attachments.bury(req); done || err != nil {
			return err
		}
	}
	config, err := cniwire.ParseConfig(req.Config)
	if err != nil {
		return err
	}
	port := ""
	if req.Args.PodName != "" {
		port = portOf(req, config)
	}
	if h.Secondary != nil && config.Network == "" {
		if err := h.Secondary.Detach(ctx, req.ContainerID); err != nil {
			return err
		}
	}
	if err := h.Attachments.remove(ctx, port, req.ContainerID, req.IfName); err != nil {
		return err
	}
	h.Counted()
	h.Failpoint("DEL record")
	if err := h.detach(ctx, req); err != nil {
		return err
	}
	h.Failpoint("DEL link")
	return h.Attachments.Tombstones.Remove(req.ContainerID, req.IfName)
}

// detach removes the link when one of maxLinks places is free. The kernel removes links one after the other, and each
// removal would block a thread that Go never ends.
func (h *Handler) detach(ctx context.Context, req cniwire.Request) error {
	select {
	case h.links <- struct{}{}:
		defer func() { <-h.links }()
	case <-ctx.Done():
		return cniwire.Errorf(cniwire.CodeTryAgainLater, "interface %s of container %s: %d other links are being made or removed",
			req.IfName, req.ContainerID, maxLinks)
	}
	return cni.Detach(req.ContainerID, req.IfName)
}

// Check implements cniserver.Handler. It verifies the sandbox's interfaces: that each belongs to the sandbox, that its flows are
// installed, and that its port is this pod's.
func (h *Handler) Check(ctx context.Context, req cniwire.Request) error {
	if err := h.attachable(); err != nil {
		return err
	}
	config, err := cniwire.ParseConfig(req.Config)
	if err != nil {
		return err
	}
	port := portOf(req, config)
	have, ok := h.Attachments.Get(port)
	if !ok || have.ContainerID != req.ContainerID || have.IfName != req.IfName {
		return cniwire.Errorf(cniwire.CodeUnknownContainer, "port %s: sandbox %s has no interface %s", port, req.ContainerID, req.IfName)
	}
	have.NetNS = req.NetNS
	if err := h.verify(have); err != nil || config.Network != "" {
		return err
	}
	return h.checkSecondary(ctx, req.ContainerID)
}

// checkSecondary verifies the secondary interfaces of a sandbox.
func (h *Handler) checkSecondary(ctx context.Context, containerID string) error {
	if h.Secondary == nil {
		return nil
	}
	for _, have := range h.Attachments.OnNetworks(containerID) {
		if err := h.verify(have); err != nil {
			return err
		}
	}
	return h.Secondary.Check(ctx, containerID)
}

// verify returns an error for what an attachment lacks. It reads the caches and the links.
func (h *Handler) verify(have desired.Attachment) error {
	port := have.InterfaceID
	row, ok := ovndb.Get[vswitchdb.Interface](h.OVS.Conn, desired.AttachmentInterfaceUUID(have))
	if !ok || !desired.Installed(row) {
		return cniwire.Errorf(cniwire.CodeInternal, "port %s: its flows are not in Open vSwitch", port)
	}
	binding, ok := h.Bindings.Find(port)
	if !ok || binding.Options[names.InterfaceVersion] != have.PodUID {
		return cniwire.Errorf(cniwire.CodeInternal, "port %s: the southbound database does not have it for pod UID %s", port, have.PodUID)
	}
	spec, mtu, datapath := h.State.forPods()
	vif, err := desired.NewVIF(binding, spec)
	if err != nil {
		return err
	}
	return cni.Verify(podInterface(have, vif, mtu, datapath))
}
