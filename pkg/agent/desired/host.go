package desired

import (
	"fmt"
	"net/netip"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam"
)

// Host is what the host's end of the management port shall have.
type Host struct {
	MAC       string
	MTU       int
	Addresses []netip.Prefix
	Routes    []Route
}

// Route sends what the host has for a network of the cluster to the cluster router.
type Route struct {
	Destination netip.Prefix
	Gateway     netip.Addr
}

// NewHost computes addresses and routes of the management port. The routes cover all pods and services: what is in the
// node's own subnet is on the link anyway.
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

// addLocalNodePorts leads the host to the node's endpoints of services, in the mode in which it sends them what comes from outside.
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
