package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/cni"
	"github.com/weft-network/weft/pkg/cniwire"
	"github.com/weft-network/weft/pkg/names"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/vswitchdb"
)

// adding is one ADD under way.
type adding struct {
	*cniHandler
	req    cniwire.Request
	config cniwire.Config
	port   string // the logical port
	clock  *stageClock
}

// Add implements cniserver.Handler.
func (h *cniHandler) Add(ctx context.Context, req cniwire.Request) (*types100.Result, error) {
	config, err := cniwire.ParseConfig(req.Config)
	if err != nil {
		return nil, err
	}
	a := &adding{cniHandler: h, req: req, config: config, clock: newStageClock(h.passed),
		port: names.PodPort(names.DefaultNetwork, req.Args.PodNamespace, req.Args.PodName)}
	defer h.clocks.watch(a.port, a.clock)()
	result, err := a.run(ctx)
	if err != nil {
		// A runtime that went away has its reasons, and deletes the pod more often than not.
		if !errors.Is(ctx.Err(), context.Canceled) {
			h.failed(req, a.clock.missing().String(), err)
		}
		return nil, err
	}
	a.clock.times(func(s stage, took time.Duration) { h.observe(s.String(), took) })
	h.counted()
	return result, nil
}

func (a *adding) run(ctx context.Context) (*types100.Result, error) {
	if err := a.awaitReady(ctx); err != nil {
		return nil, err
	}
	vif, err := a.awaitAddress(ctx)
	if err != nil {
		return nil, err
	}
	if err := a.clear(ctx); err != nil {
		return nil, err
	}
	spec, mtu, datapath := a.state.forPods()
	dns, err := resultDNS(a.config, spec.DNS, a.req.Args.PodNamespace)
	if err != nil {
		return nil, err
	}
	want := podInterface(a.req.ContainerID, a.req.NetNS, a.req.IfName, vif, mtu, datapath)
	made, err := a.attach(ctx, want)
	if err != nil {
		return nil, err
	}
	if err := a.plug(ctx, vif, made.HostName); err != nil {
		return nil, errors.Join(err, a.undo())
	}
	if err := a.settle(&want); err != nil {
		return nil, errors.Join(err, a.undo())
	}
	return result(a.req, want, made, dns), nil
}

// settle puts right what may have changed between the link's making and its being known as an attachment.
func (a *adding) settle(want *cni.PodInterface) error {
	// Now that ovs-vswitchd has the new port it has given up the former of that name.
	if err := cni.Raise(want.ContainerID, want.IfName); err != nil {
		return err
	}
	if _, now, _ := a.state.forPods(); now != want.MTU && now != 0 {
		want.MTU = now
		return cni.SetMTU(*want)
	}
	return nil
}

// awaitReady waits until ADD can be served: kubelet would come back only after 10 s or more.
func (a *adding) awaitReady(ctx context.Context) error {
	for {
		news := a.state.next() // before the look, so that nothing between the two is missed
		err := a.attachable()
		if err == nil {
			a.clock.reached(stageNode)
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return a.stopped(ctx, stageNode, err.Error())
		}
	}
}

// awaitAddress waits until the pod's port, and not an earlier pod's of the same name, has come to this node.
func (a *adding) awaitAddress(ctx context.Context) (vif desired.VIF, err error) {
	state := ""
	err = a.southbound.conn.Load().Wait(ctx, func() (bool, error) {
		vif, state = a.lookForAddress()
		return state == "", nil
	})
	if err != nil {
		return vif, a.stopped(ctx, stageAddress, state)
	}
	a.clock.reached(stageAddress)
	return vif, nil
}

// lookForAddress reads the pod's port; missing says what is wrong with it.
func (a *adding) lookForAddress() (vif desired.VIF, missing string) {
	binding, ok := a.southbound.binding(a.port)
	if !ok {
		return vif, "the operator has not given it a port yet"
	}
	want := a.req.Args.PodUID
	if have := binding.Options["iface-id-ver"]; want != "" && have != want {
		return vif, fmt.Sprintf("its port is still that of an earlier pod (UID %s, want %s)", have, want)
	}
	spec, _, _ := a.state.forPods()
	vif, err := desired.NewVIF(binding, spec)
	if err != nil {
		return vif, err.Error()
	}
	return vif, ""
}

// clear takes away what an earlier ADD of the same sandbox made: Open vSwitch must let go of the old link, and rows that stayed would
// carry its mark of ovn-controller. Its tombstone goes too, else the next agent would take the sandbox for dead.
func (a *adding) clear(ctx context.Context) error {
	if err := a.attachments.remove(ctx, a.port, a.req.ContainerID, a.req.IfName); err != nil {
		return a.stopped(ctx, stageLink, "Open vSwitch: "+err.Error())
	}
	return a.attachments.tombstones.Remove(a.req.ContainerID, a.req.IfName)
}

func podInterface(containerID, netNS, ifName string, vif desired.VIF, mtu int, datapath networkv1alpha1.DatapathType) cni.PodInterface {
	userspace := datapath == networkv1alpha1.DatapathNetdev
	return cni.PodInterface{
		ContainerID: containerID, NetNS: netNS, IfName: ifName,
		MAC: vif.MAC, Addresses: vif.Prefixes, Gateways: vif.Gateways, MTU: mtu,
		DisableTxOffload: userspace, IngressGuard: userspace,
	}
}

// attach makes the link when it is its turn.
func (a *adding) attach(ctx context.Context, want cni.PodInterface) (made cni.Attachment, err error) {
	select {
	case a.links <- struct{}{}:
		defer func() { <-a.links }()
	case <-ctx.Done():
		return made, a.stopped(ctx, stageLink, fmt.Sprintf("%d others are being made", maxLinks))
	}
	if made, err = cni.Attach(want); err != nil {
		return made, fmt.Errorf("port %s: %w", a.port, err)
	}
	a.clock.reached(stageLink)
	return made, nil
}

// plug adds the host's end to br-int and waits until its flows are there.
func (a *adding) plug(ctx context.Context, vif desired.VIF, hostName string) error {
	want := desired.Attachment{
		InterfaceID: a.port, PodUID: vif.PodUID, Network: a.config.Name, ContainerID: a.req.ContainerID, NetNS: a.req.NetNS,
		IfName: a.req.IfName, HostName: hostName, MAC: vif.MAC.String(), Addresses: vif.Addresses,
	}
	if err := a.attachments.add(ctx, want); err != nil {
		return a.stopped(ctx, stagePort, "Open vSwitch: "+err.Error())
	}
	a.clock.reached(stagePort)
	state := ""
	err := a.ovs.Wait(ctx, func() (bool, error) {
		state = a.look(want)
		return state == "", nil
	})
	if err != nil {
		return a.stopped(ctx, a.clock.missing(), state)
	}
	return nil
}

// look notes the stages that have come and says what the next one lacks; empty: nothing.
func (a *adding) look(want desired.Attachment) (missing string) {
	row, ok := ovndb.Get[vswitchdb.Interface](a.ovs.Conn, desired.AttachmentInterfaceUUID(want))
	if !ok {
		return "Open vSwitch does not have its interface"
	}
	plugged := row.Ofport != nil && *row.Ofport > 0
	if plugged {
		a.clock.reached(stageInterface)
	}
	binding, ok := a.southbound.binding(a.port)
	claimed := ok && binding.Chassis != nil
	if claimed {
		a.clock.reached(stageBinding)
	}
	switch {
	case desired.Installed(row):
		a.clock.reached(stageFlows)
		return ""
	case row.Error != nil && *row.Error != "":
		return "Open vSwitch: " + *row.Error
	case !plugged:
		return "ovs-vswitchd has not made it a port of " + names.IntegrationBridge + " yet" + because(a.vswitchd)
	case !claimed:
		return "ovn-controller has not claimed it yet" + because(a.controller)
	}
	return "ovn-controller has claimed it and not installed its flows yet" + because(a.controller)
}

// because is what is known of a daemon that should have acted.
func because(d *daemon) string {
	if _, err := d.state(); err != nil {
		return ": " + err.Error()
	}
	return ""
}

// stopped is the error of an ADD that ends at a stage; state is the last that was seen of it.
func (a *adding) stopped(ctx context.Context, s stage, state string) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, ctx.Err()) {
		state += "; " + cause.Error()
	}
	return cniwire.Errorf(cniwire.CodeTryAgainLater, "port %s: %s (stage %s, of %s, has not come after %.1f s)", a.port, state, s, s.owner(),
		a.clock.elapsed().Seconds())
}

// undo leaves nothing of an ADD that failed; the runtime's context may be over.
func (a *adding) undo() error {
	ctx, cancel := context.WithTimeout(context.Background(), undoTimeout)
	defer cancel()
	return errors.Join(a.attachments.remove(ctx, a.port, a.req.ContainerID, a.req.IfName), cni.Detach(a.req.ContainerID, a.req.IfName))
}
