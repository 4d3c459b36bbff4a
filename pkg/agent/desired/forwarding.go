package desired

import (
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/names"
)

// Forwarding is what the host's firewalls must let pass: packets from and to links of Weft, in families. The zero value is
// nothing.
type Forwarding struct {
	Links      []string
	IPv4, IPv6 bool
}

// Equal reports whether two values are the same.
func (f Forwarding) Equal(other Forwarding) bool {
	return slices.Equal(f.Links, other.Links) && f.IPv4 == other.IPv4 && f.IPv6 == other.IPv6
}

// Forwarding returns what the host forwards by Weft's links: packets of pods in Local mode, and of clients that it serves itself in
// Shared mode.
func (h HostRules) Forwarding() Forwarding {
	if h.Mode != networkv1alpha1.GatewayLocal && !h.Forwards {
		return Forwarding{}
	}
	f := Forwarding{Links: []string{names.ManagementInterface}}
	if h.Egress {
		f.Links = append(f.Links, names.EgressInterface)
	}
	for _, network := range h.Pods {
		f.IPv4, f.IPv6 = f.IPv4 || network.Addr().Is4(), f.IPv6 || network.Addr().Is6()
	}
	return f
}
