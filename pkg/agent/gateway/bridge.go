package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/hostnet"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ovndb"
)

// externalBridge is an Open vSwitch bridge that leads outside.
type externalBridge struct {
	name     string
	nic      string // its port that leads outside
	physical int    // OpenFlow number of that port; 0: not assigned yet
	patch    int    // OpenFlow number of the patch port to br-int; 0: not connected yet
}

var (
	errNoBridge = errors.New("it is no Open vSwitch bridge, nor on one")
	errNoNIC    = errors.New("it has no port that leads outside")
)

// findOutside returns the bridge that leads outside, and the host's link with the same name. It moves a link that is not on a
// bridge, and a moved link that is no longer on its bridge.
func (r *Gateway) findOutside(
	ctx context.Context, node *corev1.Node, spec networkv1alpha1.NodeNetworkSpec,
) (externalBridge, desired.Link, error) {
	if err := r.takeBack(node, spec); err != nil {
		return externalBridge{}, desired.Link{}, err
	}
	link, err := hostnet.OutsideOf(spec.Gateway.Interface)
	if err != nil {
		// Only a link that was moved, or is being moved, may be there again after a move.
		req := r.uplinkRequest(node, spec, spec.Gateway.Interface)
		if r.uplinks.isAway(req.Interface) || r.uplinks.isMoved(req.Interface) || spec.Gateway.Move == moveOf(req) {
			err = cmp.Or(r.move(spec, req), err)
		}
		return externalBridge{}, link, err
	}
	row, err := r.bridgeOf(ctx, link.Name)
	if r.uplinks.isAway(link.Name) {
		err = errNoBridge // the rows are left from before
	}
	if errors.Is(err, errNoBridge) {
		if err := r.move(spec, r.uplinkRequest(node, spec, link.Name)); err != nil && !errors.Is(err, errNoBridge) {
			return externalBridge{}, link, fmt.Errorf("link %s: %w", link.Name, err)
		}
		return externalBridge{}, link, fmt.Errorf("link %s: %w: put it on a bridge that has its addresses, "+
			"name one in ClusterNetwork's spec.gateway.interface, or choose spec.gateway.mode Local", link.Name, err)
	} else if err != nil {
		return externalBridge{}, link, err
	}
	bridge, err := r.inspect(ctx, row, link.Name)
	if errors.Is(err, errNoNIC) {
		if nic := r.uplinks.linkOf(row.Name); nic != "" {
			err = r.move(spec, r.uplinkRequest(node, spec, nic)) // someone removed the port, which disconnects the host
		}
	}
	if err == nil && row.Name != link.Name {
		link, err = hostnet.OutsideOf(row.Name) // the bridge's own link has the addresses of its port
	}
	if err == nil && spec.Gateway.Uplink == networkv1alpha1.UplinkInterface {
		err = r.uplinks.lend(&link)
	}
	return bridge, link, err
}

// bridgeOf returns the bridge with the link's name, or the bridge that has the link as a port.
func (r *Gateway) bridgeOf(ctx context.Context, link string) (*vswitchdb.Bridge, error) {
	if bridge, ok := ovndb.Find(r.OVS.Conn, &vswitchdb.Bridge{Name: link}); ok {
		return bridge, nil
	}
	port, ok := ovndb.Find(r.OVS.Conn, &vswitchdb.Port{Name: link})
	if !ok {
		return nil, errNoBridge
	}
	for _, bridge := range ovndb.List(r.OVS.Conn, func(b *vswitchdb.Bridge) bool { return b.Name != names.IntegrationBridge }) {
		ports, err := r.OVS.Elements(ctx, vswitchdb.BridgeTable, bridge.UUID, "ports")
		if err != nil {
			return nil, err
		}
		if slices.Contains(ports, port.UUID) {
			return bridge, nil
		}
	}
	return nil, errNoBridge
}

// inspect finds the bridge's port that leads outside, and its patch to br-int. nic names the former, unless nic is the
// bridge itself.
func (r *Gateway) inspect(ctx context.Context, row *vswitchdb.Bridge, nic string) (externalBridge, error) {
	if err := r.checkDatapath(row); err != nil {
		return externalBridge{}, err
	}
	found := externalBridge{name: row.Name}
	interfaces, err := r.interfacesOf(ctx, row)
	if err != nil {
		return found, err
	}
	var candidates []string
	for _, i := range interfaces {
		switch {
		case i.Name == names.PatchToIntegration(names.Localnet(row.Name, r.Node)):
			found.patch = portNumber(i)
		case i.Name == row.Name: // the bridge's own link
		case i.Name == nic || nic == row.Name && leadsOutside(i):
			found.nic, found.physical = i.Name, portNumber(i)
			candidates = append(candidates, i.Name)
		}
	}
	switch len(candidates) {
	case 0:
		return found, fmt.Errorf("bridge %s: %w", row.Name, errNoNIC)
	case 1:
		return found, nil
	}
	return found, fmt.Errorf("bridge %s: %v may all lead outside: name one in ClusterNetwork's spec.gateway.interface",
		row.Name, candidates)
}

// checkDatapath returns an error if br-int uses another datapath than the bridge.
func (r *Gateway) checkDatapath(row *vswitchdb.Bridge) error {
	if row.DatapathType == string(r.Datapath) || row.DatapathType == "" && r.Datapath == networkv1alpha1.DatapathSystem {
		return nil
	}
	return fmt.Errorf("bridge %s: datapath_type is %q and %s's %q: a patch between them forwards nothing",
		row.Name, row.DatapathType, names.IntegrationBridge, r.Datapath)
}

func (r *Gateway) interfacesOf(ctx context.Context, row *vswitchdb.Bridge) ([]*vswitchdb.Interface, error) {
	ports, err := r.OVS.Elements(ctx, vswitchdb.BridgeTable, row.UUID, "ports")
	if err != nil {
		return nil, fmt.Errorf("bridge %s: %w", row.Name, err)
	}
	var found []*vswitchdb.Interface
	for _, id := range ports {
		port, ok := ovndb.Get[vswitchdb.Port](r.OVS.Conn, id)
		if !ok {
			continue
		}
		for _, id := range port.Interfaces {
			if i, ok := ovndb.Get[vswitchdb.Interface](r.OVS.Conn, id); ok {
				found = append(found, i)
			}
		}
	}
	return found, nil
}

// leadsOutside reports whether an interface is a link of the host or a network card that Open vSwitch drives itself.
func leadsOutside(i *vswitchdb.Interface) bool {
	return slices.Contains([]string{"", "system", "dpdk"}, i.Type)
}

// portNumber returns the interface's OpenFlow port, or 0 if it has none.
func portNumber(i *vswitchdb.Interface) int {
	if i.Ofport == nil {
		return 0
	}
	return max(0, *i.Ofport)
}
