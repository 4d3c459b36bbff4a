package desired

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/ovn/sbdb"
)

// HostPorts returns the host ports of the node's pods from their bindings. Each host port is a service whose only
// endpoint is the pod. HostPorts omits what it cannot parse, because the operator writes the bindings. It also omits host ports
// at addresses that are neither loopback addresses nor among own, the node's addresses.
func HostPorts(bindings []*sbdb.PortBinding, own []netip.Addr) (found []Frontend) {
	for _, binding := range bindings {
		ports, err := ovnexpr.ParseHostPorts(binding.ExternalIDs[ovnexpr.HostPortsKey])
		if err != nil || len(binding.MAC) == 0 {
			continue
		}
		pod, err := ovnexpr.ParsePortAddress(binding.MAC[0])
		if err != nil {
			continue
		}
		for _, port := range ports {
			if port.Address.IsValid() && !port.Address.IsLoopback() && !slices.Contains(own, port.Address) {
				continue
			}
			for _, address := range pod.Addresses {
				if port.Address.IsValid() && port.Address.Is4() != address.Is4() {
					continue
				}
				at := Frontend{
					Address: port.Address, Protocol: corev1.Protocol(strings.ToUpper(port.Protocol)), Port: port.Port,
					ClusterIP: address, ClusterPort: port.Target, Pod: true,
				}
				found = append(found, at)
				if !at.Address.IsValid() && address.Is4() { // the kernel cannot translate packets to ::1
					at.Address = netip.AddrFrom4([4]byte{127, 0, 0, 1})
					found = append(found, at)
				}
			}
		}
	}
	slices.SortFunc(found, func(a, b Frontend) int {
		return cmp.Or(a.ClusterIP.Compare(b.ClusterIP), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port),
			a.Address.Compare(b.Address))
	})
	return found
}

// Translated returns the floating addresses that the node's gateway router translates, from the bindings of pods. It
// omits what it cannot parse, because the operator writes the bindings.
func Translated(bindings []*sbdb.PortBinding) []netip.Addr {
	return listed(bindings, ovnexpr.TranslatedKey)
}

// Routed returns the addresses of pods that leave the node untranslated, because they have routers of their own, and Watched the
// addresses of routers that the node's gateway router watches by BFD.
func Routed(bindings []*sbdb.PortBinding) []netip.Addr { return listed(bindings, ovnexpr.RoutedKey) }

// Watched is described at Routed.
func Watched(bindings []*sbdb.PortBinding) []netip.Addr { return listed(bindings, ovnexpr.WatchedKey) }

func listed(bindings []*sbdb.PortBinding, key string) (found []netip.Addr) {
	for _, binding := range bindings {
		if addresses, err := ovnexpr.ParseAddresses(binding.ExternalIDs, key); err == nil {
			found = append(found, addresses...)
		}
	}
	slices.SortFunc(found, netip.Addr.Compare)
	return slices.Compact(found)
}
