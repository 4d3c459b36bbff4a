package v1alpha1

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// RequestedIPsAnnotation asks for a pod's addresses: at most one per family, separated by a comma. It is read when the pod gets its
// addresses, and never again.
const RequestedIPsAnnotation = GroupName + "/requested-ips"

// ParseRequestedIPs reads the value of RequestedIPsAnnotation: one address, or two of different families.
func ParseRequestedIPs(text string) ([]netip.Addr, error) {
	var addresses []netip.Addr
	for part := range strings.SplitSeq(text, ",") {
		address, err := netip.ParseAddr(strings.TrimSpace(part))
		switch {
		case err != nil:
			return nil, fmt.Errorf("annotation %s: %w", RequestedIPsAnnotation, err)
		case address.Zone() != "" || address.Is4In6():
			return nil, fmt.Errorf("annotation %s: %s is not a plain IPv4 or IPv6 address", RequestedIPsAnnotation, address)
		case len(addresses) == 2:
			return nil, fmt.Errorf("annotation %s: more than two addresses", RequestedIPsAnnotation)
		}
		addresses = append(addresses, address)
	}
	if len(addresses) == 2 && addresses[0].Is4() == addresses[1].Is4() {
		return nil, fmt.Errorf("annotation %s: %w: %s and %s", RequestedIPsAnnotation, errOneFamily, addresses[0], addresses[1])
	}
	return addresses, nil
}

var errOneFamily = errors.New("two addresses of one family")
