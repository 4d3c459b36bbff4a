package ovnexpr

import (
	"net/netip"
	"strconv"
)

// RoutedTo matches packets that a router's port receives for an address (ovn-sb(5), Logical_Flow.match).
func RoutedTo(port string, address netip.Addr) string {
	family := "ip6"
	if address.Is4() {
		family = "ip4"
	}
	return "inport == " + strconv.Quote(port) + " && " + family + ".dst == " + address.String()
}

// Never matches no packet.
const Never = "0"
