package balance

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
	"github.com/weft-network/weft/pkg/addresses/lbpool"
	"github.com/weft-network/weft/pkg/facts"
)

// Claims are the addresses that Services yield to objects of other kinds, whatever the ages, because the user of a namespace can add an
// address to an old Service at any time. The zero value has none.
type Claims struct {
	inForce floating.InForce
	granted map[netip.Addr]string // the EgressIP by address
}

// NewClaims reads the ranges that NAT pools have in force, and the addresses that EgressIPs were granted.
func NewClaims(pools []networkv1alpha1.IPPool, egressIPs []networkv1alpha1.EgressIP) Claims {
	c := Claims{inForce: floating.NewInForce(pools), granted: map[netip.Addr]string{}}
	for i := range egressIPs {
		for _, a := range facts.GrantedEgressAddresses(&egressIPs[i]) {
			// Of several, the first by name, so that the message is the same each time.
			if name := egressIPs[i].Name; c.granted[a] == "" || name < c.granted[a] {
				c.granted[a] = name
			}
		}
	}
	return c
}

// Owner returns the object to which a Service yields an external address, "IPPool web" or "EgressIP out", or "" if the Service has the
// address. A Service yields no address that a LoadBalancerPool gave it.
func (c Claims) Owner(service *corev1.Service, a netip.Addr) string {
	if slices.Contains(lbpool.Given(service), a) {
		return ""
	}
	if name := c.granted[a]; name != "" {
		return "EgressIP " + name
	}
	return c.inForce.Owner(a)
}
