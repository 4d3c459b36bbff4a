package attach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/daemon"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/cni"
	"github.com/weft-network/weft/pkg/cni/cniwire"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ovndb"
)

// adding is one interface that is being attached.
type adding struct {
	*Handler
	sandbox Sandbox
	ifName  string
	network string // the name of the CNI network
	port    string // the logical port
	request string // the hash of the request that the port must serve; empty: any
	// hostPorts are the random host ports of the pod.
	hostPorts []ovnexpr.HostPort
	clock     *stageClock
}

// Sandbox is a pod's sandbox as the runtime names it.
type Sandbox struct {
	Namespace, Pod, UID string // UID is empty if the runtime does not know it
	ContainerID, NetNS  string
}

func sandboxOf(req cniwire.Request) Sandbox {
	return Sandbox{Namespace: req.Args.PodNamespace, Pod: req.Args.PodName, UID: req.Args.PodUID,
		ContainerID: req.ContainerID, NetNS: req.NetNS}
}

// portOf returns the logical port that a request is about: a definition with a Network is called by another meta
// plugin, such as Multus.
func portOf(req cniwire.Request, config cniwire.Config) string {
	if config.Network != "" {
		return names.NetworkPort(config.Network, req.Args.PodNamespace, req.Args.PodName, req.IfName)
	}
	return names.PodPort(names.DefaultNetwork, req.Args.PodNamespace, req.Args.PodName)
}

// Add implements cniserver.Handler.
func (h *Handler) Add(ctx context.Context, req cniwire.Request) (*types100.Result, error) {
	config, err := cniwire.ParseConfig(req.Config)
	if err != nil {
		return nil, err
	}
	a := &adding{Handler: h, sandbox: sandboxOf(req), ifName: req.IfName, network: config.Name, port: portOf(req,
		config), clock: newStageClock(h.Failpoint)}
	defer h.clocks.watch(a.port, a.clock)()
	result, err := a.run(ctx, req, config)
	if err != nil {
		// A runtime that has disconnected usually deletes the pod, so that its ADD did not really fail.
		if !errors.Is(ctx.Err(), context.Canceled) {
			h.Failed(req, a.clock.missing().String(), err)
		}
		return nil, err
	}
	a.clock.times(func(s stage, took time.Duration) { h.Observe(s.String(), took) })
	h.Counted()
	return result, nil
}

func (a *adding) run(ctx context.Context, req cniwire.Request, config cniwire.Config) (*types100.Result, error) {
	if other := a.Attachments.interfaceOf(a.port, req.ContainerID, req.IfName); other != "" {
		return nil, cniwire.Errorf(cniwire.CodeInvalidConfig,
			"port %s: the sandbox has interface %s on this network already, and gets no second one, %s: "+
				"request secondary interfaces by the annotation %s", a.port, other, req.IfName, networks.Annotation)
	}
	if err := a.awaitReady(ctx); err != nil {
		return nil, err
	}
	vif, err := a.awaitAddress(ctx)
	if err != nil {
		return nil, err
	}
	spec, _, _ := a.State.forPods()
	dns, err := resultDNS(config, spec.DNS, req.Args.PodNamespace)
	if err != nil {
		return nil, err
	}
	plan, err := a.planFurther(ctx)
	if err != nil {
		return nil, err
	}
	if err := a.claimHostPorts(ctx, vif); err != nil {
		return nil, err
	}
	defer a.releaseHostPorts()
	made, err := a.makeInterface(ctx, vif, plan)
	if err != nil {
		return nil, err
	}
	if err := a.awaitHostPorts(ctx); err != nil {
		return nil, errors.Join(err, a.undo())
	}
	if plan != nil {
		if err := plan.Attach(ctx); err != nil {
			return nil, errors.Join(err, a.undo())
		}
	}
	return result(req, made, dns), nil
}

// makeInterface makes the link and makes it a port of br-int. It leaves nothing if it fails.
func (a *adding) makeInterface(ctx context.Context, vif desired.VIF, plan FurtherPlan) (made madeInterface, err error) {
	if err := a.clear(ctx); err != nil {
		return made, err
	}
	if err := a.probe(ctx, vif); err != nil {
		return made, err
	}
	record := desired.Attachment{
		InterfaceID: a.port, PodUID: vif.PodUID, Network: a.network, ContainerID: a.sandbox.ContainerID, NetNS: a.sandbox.NetNS,
		IfName: a.ifName, MAC: vif.MAC.String(), Addresses: vif.Addresses, Request: vif.Request, MTU: vif.MTU,
		HostPorts: a.hostPorts,
	}
	if plan != nil {
		record.OtherDefaultRoutes = plan.DefaultRoutes()
	}
	_, mtu, datapath := a.State.forPods()
	made.Want = podInterface(record, vif, mtu, datapath)
	if made.Attachment, err = a.attach(ctx, made.Want); err != nil {
		return made, err
	}
	record.HostName = made.HostName
	if err := a.plug(ctx, record); err != nil {
		return made, errors.Join(err, a.undo())
	}
	if err := errors.Join(a.settle(&made.Want, vif), a.announce(made.Want, vif)); err != nil {
		return made, errors.Join(err, a.undo())
	}
	return made, nil
}

// madeInterface is a pod's interface as it was made.
type madeInterface struct {
	cni.Attachment
	Want cni.PodInterface
}

// settle corrects what may have changed after the link was made and before Open vSwitch had the attachment.
func (a *adding) settle(want *cni.PodInterface, vif desired.VIF) error {
	// ovs-vswitchd has the new port now, so that it has already released the earlier port of that name.
	if err := cni.Raise(want.ContainerID, want.IfName); err != nil {
		return err
	}
	if _, now, _ := a.State.forPods(); vif.MTU == 0 && now != want.MTU && now != 0 {
		want.MTU = now
		return cni.SetMTU(*want)
	}
	return nil
}

// awaitReady waits until the node can serve ADD, because kubelet would retry only after 10 s or more.
func (a *adding) awaitReady(ctx context.Context) error {
	for {
		changed := a.State.next() // before attachable reads the state, so that no change is missed
		err := a.attachable()
		if err == nil {
			a.clock.reached(stageNode)
			return nil
		}
		a.waits(err.Error())
		select {
		case <-changed:
		case <-ctx.Done():
			return a.stopped(ctx, stageNode, err.Error())
		}
	}
}

// awaitAddress waits until this node has the pod's port, not the port of an earlier pod of the same name.
func (a *adding) awaitAddress(ctx context.Context) (vif desired.VIF, err error) {
	state := ""
	err = a.Bindings.Wait(ctx, func() (bool, error) {
		vif, state = a.findAddress()
		a.waits(state)
		return state == "", nil
	})
	if err != nil {
		return vif, a.stopped(ctx, stageAddress, state)
	}
	a.clock.reached(stageAddress)
	return vif, nil
}

// findAddress reads the pod's port. missing is empty or says what is wrong with the port.
func (a *adding) findAddress() (vif desired.VIF, missing string) {
	binding, ok := a.Bindings.Find(a.port)
	if !ok {
		return vif, "the operator has not given it a port yet"
	}
	want := a.sandbox.UID
	if have := binding.Options[names.InterfaceVersion]; want != "" && have != want {
		return vif, fmt.Sprintf("its port is still that of an earlier pod (UID %s, want %s)", have, want)
	}
	spec, _, _ := a.State.forPods()
	vif, err := desired.NewVIF(binding, spec)
	if err != nil {
		return vif, err.Error()
	}
	if a.request != "" && vif.Request != a.request {
		return vif, "the operator has not changed its port for the present request yet"
	}
	return vif, ""
}

// clear removes what an earlier ADD of the same sandbox made. Open vSwitch must release the old link, and old rows
// would still have their ovn-installed mark. It also removes a tombstone of the sandbox, because the next agent would
// remove the interface.
func (a *adding) clear(ctx context.Context) error {
	if err := a.Attachments.remove(ctx, a.port, a.sandbox.ContainerID, a.ifName); err != nil {
		return a.stopped(ctx, stageLink, "Open vSwitch: "+err.Error())
	}
	return a.Attachments.Tombstones.Remove(a.sandbox.ContainerID, a.ifName)
}

// podInterface returns the interface that a record and the port describe. mtu is that of the pods' interfaces on the
// cluster network.
func podInterface(record desired.Attachment, vif desired.VIF, mtu int, datapath networkv1alpha1.DatapathType) cni.PodInterface {
	userspace := datapath == networkv1alpha1.DatapathNetdev
	want := cni.PodInterface{
		ContainerID: record.ContainerID, NetNS: record.NetNS, IfName: record.IfName,
		MAC: vif.MAC, Addresses: vif.Prefixes, MTU: cmp.Or(vif.MTU, mtu),
		DisableTxOffload: userspace, IngressGuard: userspace,
	}
	for _, gateway := range vif.Gateways {
		if !slices.Contains(record.OtherDefaultRoutes, names.Family(gateway)) {
			want.Gateways = append(want.Gateways, gateway)
		}
	}
	for _, route := range vif.Routes {
		want.Routes = append(want.Routes, cni.Route{Dst: route.Destination, Gateway: route.Gateway})
	}
	return want
}

// attach makes the link when one of maxLinks places is free.
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

// plug adds the host's end of the link to br-int and waits until its flows are installed.
func (a *adding) plug(ctx context.Context, want desired.Attachment) error {
	err := a.Attachments.add(ctx, want)
	if uncopied := (*uncopiedError)(nil); errors.As(err, &uncopied) {
		return a.stopped(ctx, stageLink, err.Error())
	} else if err != nil {
		return a.stopped(ctx, stagePort, "Open vSwitch: "+err.Error())
	}
	a.clock.reached(stagePort)
	state := ""
	err = a.OVS.Wait(ctx, func() (bool, error) {
		state = a.observe(want)
		a.waits(state)
		return state == "", nil
	})
	if err != nil {
		return a.stopped(ctx, a.clock.missing(), state)
	}
	return nil
}

// observe records the stages that were reached and returns what the next stage lacks. An empty result means that all
// were reached.
func (a *adding) observe(want desired.Attachment) (missing string) {
	row, ok := ovndb.Get[vswitchdb.Interface](a.OVS.Conn, desired.AttachmentInterfaceUUID(want))
	if !ok {
		return "Open vSwitch does not have its interface"
	}
	plugged := row.Ofport != nil && *row.Ofport > 0
	if plugged {
		a.clock.reached(stageInterface)
	}
	binding, ok := a.Bindings.Find(a.port)
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
		return "ovs-vswitchd has not made it a port of " + names.IntegrationBridge + " yet" + because(a.Switch)
	case !claimed:
		return "ovn-controller has not claimed it yet" + because(a.Controller)
	}
	return "ovn-controller has claimed it and not installed its flows yet" + because(a.Controller)
}

// waits passes the failpoint of an ADD that waits for the end of a state. An empty state is no wait.
func (a *adding) waits(state string) {
	if state != "" {
		a.Failpoint("ADD of " + a.port + " waits: " + state)
	}
}

// because returns why a daemon that should have acted did not, if it does not answer.
func because(d *daemon.Daemon) string {
	if _, err := d.State(); err != nil {
		return ": " + err.Error()
	}
	return ""
}

// stopped returns the error of an ADD that ends at a stage. state is the last state of that stage.
func (a *adding) stopped(ctx context.Context, s stage, state string) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, ctx.Err()) {
		state += "; " + cause.Error()
	}
	return cniwire.Errorf(cniwire.CodeTryAgainLater, "port %s: %s (stage %s, of %s, has not come after %.1f s)",
		a.port, state, s, s.owner(), a.clock.elapsed().Seconds())
}

// undo removes everything that a failed ADD made. It has its own context, because the runtime's may have ended.
func (a *adding) undo() error {
	ctx, cancel := context.WithTimeout(context.Background(), undoTimeout)
	defer cancel()
	return errors.Join(a.Attachments.remove(ctx, a.port, a.sandbox.ContainerID, a.ifName), cni.Detach(a.sandbox.ContainerID, a.ifName))
}
