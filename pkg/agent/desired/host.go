package desired

import (
	"fmt"
	"net/netip"
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam"
)

// Host is the desired state of the host's end of the management port.
type Host struct {
	MAC       string
	MTU       int
	Addresses []netip.Prefix
	Routes    []Route
}

// Route sends the host's packets to a network of the cluster through the cluster router.
type Route struct {
	Destination netip.Prefix
	Gateway     netip.Addr
}

// NewHost computes the addresses and routes of the management port. The routes cover all pods and services. The node's
// own pod subnet needs no route, because it is on the link.
func NewHost(spec networkv1alpha1.NodeNetworkSpec, mtu int) (Host, error) {
	host := Host{MAC: string(spec.ManagementPort.MACAddress), MTU: mtu}
	for _, text := range spec.ManagementPort.Addresses {
		address, err := text.Prefix()
		if err != nil {
			return Host{}, fmt.Errorf("spec.managementPort.addresses: %w", err)
		}
		host.Addresses = append(host.Addresses, address)
	}
	for _, networks := range [][]networkv1alpha1.CIDR{spec.ClusterSubnets, spec.ServiceSubnets} {
		for _, cidr := range networks {
			destination, err := cidr.Prefix()
			if err != nil {
				return Host{}, fmt.Errorf("route of the management port: %w", err)
			}
			gateway, err := gatewayFor(destination, spec.Gateways)
			if err != nil {
				return Host{}, err
			}
			if gateway.IsValid() {
				host.Routes = append(host.Routes, Route{destination, gateway})
			}
		}
	}
	return host, host.addLocalNodePorts(spec)
}

// HostMode returns Local if spec requests that mode, or if the reported gateway still has it.
func HostMode(spec networkv1alpha1.NodeNetworkSpec, reported *networkv1alpha1.NodeGatewayStatus) networkv1alpha1.GatewayMode {
	if reported != nil && reported.Mode == networkv1alpha1.GatewayLocal {
		return reported.Mode
	}
	return spec.Gateway.Mode
}

// addLocalNodePorts adds the routes to this node's endpoints of services in Local mode, in which the host sends them the
// packets from outside.
func (h *Host) addLocalNodePorts(spec networkv1alpha1.NodeNetworkSpec) error {
	if spec.Gateway.Mode != networkv1alpha1.GatewayLocal {
		return nil
	}
	for _, address := range ipam.LocalNodePorts() {
		destination := netip.PrefixFrom(address, address.BitLen())
		gateway, err := gatewayFor(destination, spec.Gateways)
		if err != nil {
			return err
		}
		if gateway.IsValid() {
			h.Routes = append(h.Routes, Route{destination, gateway})
		}
	}
	return nil
}

// Path is the network of the longest route by which this host reaches an address that it needs.
type Path struct {
	To  netip.Addr
	Via netip.Prefix
}

// Spares returns an error if a route is longer than the one by which this host reaches an address that it needs, so that
// it would divert these packets. It ignores routes to service networks, because the API server's cluster IP must use
// them.
func (h Host) Spares(spec networkv1alpha1.NodeNetworkSpec, paths []Path) error {
	for _, route := range h.Routes {
		for _, path := range paths {
			diverts := route.Destination.Contains(path.To) && route.Destination.Bits() > path.Via.Bits()
			if diverts && !isServiceNetwork(spec, route.Destination) {
				return fmt.Errorf("no routes to pods and services are made: that of %s would lead this host away from %s, "+
					"which it reaches by %s; ClusterNetwork's networks must not overlap those of hosts",
					route.Destination, path.To, path.Via)
			}
		}
	}
	return nil
}

func isServiceNetwork(spec networkv1alpha1.NodeNetworkSpec, destination netip.Prefix) bool {
	return slices.ContainsFunc(spec.ServiceSubnets, func(cidr networkv1alpha1.CIDR) bool {
		network, err := cidr.Prefix()
		return err == nil && network == destination
	})
}

func gatewayFor(destination netip.Prefix, gateways []networkv1alpha1.IP) (netip.Addr, error) {
	for _, text := range gateways {
		gateway, err := text.Addr()
		if err != nil {
			return netip.Addr{}, fmt.Errorf("spec.gateways: %w", err)
		}
		if gateway.Is4() == destination.Addr().Is4() {
			return gateway, nil
		}
	}
	return netip.Addr{}, nil
}
