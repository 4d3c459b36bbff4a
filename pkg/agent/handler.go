package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
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
	links       chan struct{} // as many places as links are made at once
	collector   *collector
	controller  *daemon
	vswitchd    *daemon
	node        string
}

// Add implements cniserver.Handler.
func (h *cniHandler) Add(ctx context.Context, req cniwire.Request) (*types100.Result, error) {
	config, err := cniwire.ParseConfig(req.Config)
	if err != nil {
		return nil, err
	}
	if err := h.awaitReady(ctx); err != nil {
		return nil, err
	}
	port := names.PodPort(names.DefaultNetwork, req.Args.PodNamespace, req.Args.PodName)
	vif, err := h.awaitBinding(ctx, port, req.Args.PodUID)
	if err != nil {
		return nil, err
	}
	// A second ADD of the same sandbox makes its link anew: Open vSwitch must let go of the old one, and rows that stayed would
	// carry its mark of ovn-controller.
	if err := h.attachments.remove(ctx, port, req.ContainerID, req.IfName); err != nil {
		return nil, cniwire.Errorf(cniwire.CodeTryAgainLater, "port %s: Open vSwitch: %v", port, err)
	}
	if err := h.attachments.tombstones.Remove(req.ContainerID, req.IfName); err != nil { // else the next agent would take the sandbox for dead
		return nil, err
	}
	_, mtu, datapath := h.state.forPods()
	want := podInterface(req, vif, mtu, datapath)
	made, err := h.attach(ctx, want)
	if err != nil {
		return nil, fmt.Errorf("pod %s/%s: %w", req.Args.PodNamespace, req.Args.PodName, err)
	}
	if err := h.plug(ctx, req, config.Name, port, vif, made.HostName); err != nil {
		return nil, errors.Join(err, h.undo(req, port))
	}
	h.counted()
	return result(req, want, made), nil
}

// awaitReady waits until ADD can be served: kubelet would come back only after 10 s or more.
func (h *cniHandler) awaitReady(ctx context.Context) error {
	for {
		news := h.state.next() // before the look, so that nothing between the two is missed
		err := h.attachable()
		if err == nil {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return cniwire.Errorf(cniwire.CodeTryAgainLater, "%v", err)
		}
	}
}

// attach makes the link when it is its turn.
func (h *cniHandler) attach(ctx context.Context, want cni.PodInterface) (cni.Attachment, error) {
	select {
	case h.links <- struct{}{}:
		defer func() { <-h.links }()
		return cni.Attach(want)
	case <-ctx.Done():
		return cni.Attachment{}, fmt.Errorf("waiting to make interface %s: %w", want.IfName, ctx.Err())
	}
}

// awaitBinding waits until the pod's port, and not an earlier pod's of the same name, has come to this node.
func (h *cniHandler) awaitBinding(ctx context.Context, port, uid string) (vif desired.VIF, err error) {
	reason := "the operator has not given it a port yet"
	err = h.southbound.conn.Load().Wait(ctx, func() (bool, error) {
		binding, ok := h.southbound.binding(port)
		if !ok {
			return false, nil
		}
		if have := binding.Options["iface-id-ver"]; uid != "" && have != uid {
			reason = fmt.Sprintf("its port is still that of an earlier pod (UID %s, want %s)", have, uid)
			return false, nil
		}
		spec, _, _ := h.state.forPods()
		if vif, err = desired.NewVIF(binding, spec); err != nil {
			reason = err.Error()
			return false, nil
		}
		return true, nil
	})
	if err != nil {
		return vif, cniwire.Errorf(cniwire.CodeTryAgainLater, "port %s: %s", port, reason)
	}
	return vif, nil
}

func podInterface(req cniwire.Request, vif desired.VIF, mtu int, datapath networkv1alpha1.DatapathType) cni.PodInterface {
	userspace := datapath == networkv1alpha1.DatapathNetdev
	return cni.PodInterface{
		ContainerID: req.ContainerID, NetNS: req.NetNS, IfName: req.IfName,
		MAC: vif.MAC, Addresses: vif.Prefixes, Gateways: vif.Gateways, MTU: mtu,
		DisableTxOffload: userspace, IngressGuard: userspace,
	}
}

// plug adds the host's end to br-int and waits until its flows are there.
func (h *cniHandler) plug(ctx context.Context, req cniwire.Request, network, port string, vif desired.VIF, hostName string) error {
	want := desired.Attachment{
		InterfaceID: port, PodUID: vif.PodUID, Network: network, ContainerID: req.ContainerID, IfName: req.IfName, HostName: hostName,
		MAC: vif.MAC.String(), Addresses: vif.Addresses,
	}
	if err := h.attachments.add(ctx, want); err != nil {
		return cniwire.Errorf(cniwire.CodeTryAgainLater, "port %s: Open vSwitch: %v", port, err)
	}
	reason := "ovn-controller has not claimed it yet"
	err := h.ovs.Wait(ctx, func() (bool, error) {
		row, ok := ovndb.Get[vswitchdb.Interface](h.ovs.Conn, desired.AttachmentInterfaceUUID(want))
		if !ok {
			reason = "Open vSwitch does not have its interface"
			return false, nil
		}
		if row.Error != nil && *row.Error != "" {
			reason = "Open vSwitch: " + *row.Error
		}
		return desired.Installed(row), nil
	})
	if err != nil {
		return cniwire.Errorf(cniwire.CodeTryAgainLater, "port %s: %s", port, reason)
	}
	return nil
}

// undo leaves nothing of an ADD that failed; the runtime's context may be over.
func (h *cniHandler) undo(req cniwire.Request, port string) error {
	ctx, cancel := context.WithTimeout(context.Background(), undoTimeout)
	defer cancel()
	return errors.Join(h.attachments.remove(ctx, port, req.ContainerID, req.IfName), cni.Detach(req.ContainerID, req.IfName))
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
	return errors.Join(cni.Detach(req.ContainerID, req.IfName), h.attachments.tombstones.Remove(req.ContainerID, req.IfName))
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
	return cni.Verify(podInterface(req, vif, mtu, datapath))
}

// result is what the runtime learns.
func result(req cniwire.Request, want cni.PodInterface, made cni.Attachment) *types100.Result {
	pod := 1
	r := &types100.Result{Interfaces: []*types100.Interface{
		{Name: made.HostName, Mac: made.HostMAC.String()},
		{Name: req.IfName, Mac: made.MAC.String(), Mtu: want.MTU, Sandbox: req.NetNS},
	}}
	for _, address := range want.Addresses {
		ip := &types100.IPConfig{Interface: &pod, Address: ipNet(address)}
		for _, gateway := range want.Gateways {
			if gateway.Is4() == address.Addr().Is4() {
				ip.Gateway = gateway.AsSlice()
			}
		}
		r.IPs = append(r.IPs, ip)
	}
	for _, gateway := range want.Gateways {
		r.Routes = append(r.Routes, defaultRoute(gateway))
	}
	return r
}

func ipNet(p netip.Prefix) net.IPNet {
	return net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func defaultRoute(gateway netip.Addr) *types.Route {
	zero := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if gateway.Is6() {
		zero = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return &types.Route{Dst: ipNet(zero), GW: gateway.AsSlice()}
}
