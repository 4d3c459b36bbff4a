package facts

import (
	"net/netip"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// LoadBalancerPool holds the facts for topology.LoadBalancerPoolUnit.
type LoadBalancerPool struct {
	Name      string
	Announced []AnnouncedAddress
	// Former are the addresses and nodes of the status, which a former process may have written.
	Former []AnnouncedAddress
}

// AnnouncedAddress is an address of a load balancer, and the node that answers for it: its gateway router, or its host.
type AnnouncedAddress struct {
	Address netip.Addr
	Node    string
	ByHost  bool
}

// AnnouncedBy returns the addresses and nodes of a pool's status, which the cluster's operator writes. ByHost is not known.
func AnnouncedBy(pool *networkv1alpha1.LoadBalancerPool) (announced []AnnouncedAddress) {
	for _, a := range pool.Status.Announcements {
		if address, err := a.Address.Addr(); err == nil {
			announced = append(announced, AnnouncedAddress{Address: address, Node: a.Node})
		}
	}
	return announced
}
