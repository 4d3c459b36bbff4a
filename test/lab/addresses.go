package lab

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// Addresses that manifests and tests may rely on. Each lab has its own network, so two labs may use the same.
const (
	APIServer  = "172.30.0.10:6443"
	Northbound = "ssl:172.30.0.10:6641"
	// Southbound is for ovn-controllers, with OVN's role; SouthboundReader is read-only.
	Southbound       = "ssl:172.30.0.10:6642"
	SouthboundReader = "ssl:172.30.0.10:16642"
	ServiceCIDRs     = "10.96.0.0/16,fd00:10:96::/112"
	ClusterCIDRs     = "10.244.0.0/16,fd00:10:244::/48"
)

// fabricMTU is the link MTU of the machines. Pods get 58 bytes less (geneve over IPv4, RFC 8926).
const fabricMTU = 1500

// MaxNodes is as many as there are addresses from .11 on.
const MaxNodes = 100

// narrowMTU is the MTU of the link to the far host: less than that of every other link, and more than what IPv6 asks of any (RFC 8200 §5).
const narrowMTU = 1300

// Machine is the control plane, a node, the router, or a host behind the router.
type Machine struct {
	Name string
	IPv4 netip.Prefix
	IPv6 netip.Prefix
	MAC  net.HardwareAddr // of eth0, and of br-ex on a node
	MTU  int              // of its cable
	// Plain is a node that has its addresses on eth0, and no br-ex: the product makes the bridge.
	Plain bool
	// Bare is a plain node with kubelet and containerd alone.
	Bare bool
}

// ControlPlane is the machine that runs the API server and OVN's central part.
func ControlPlane() Machine { return machine("cp", 10) }

// Router is the default gateway of all machines: of those on the fabric by eth0, of those behind it by a link named as they are. It is a
// plain Linux router and knows nothing of pods and services.
func Router() Machine { return machine("rt", 1) }

// Outside is a host of the world outside, of which no machine of the cluster knows more than the default route.
func Outside() Machine {
	return behindRouter("out", "198.51.100.10/24", "2001:db8:100::10/64", fabricMTU)
}

// Far is another, behind a narrow link: who sends it larger packets is told so by the router.
func Far() Machine { return behindRouter("far", "203.0.113.10/24", "2001:db8:200::10/64", narrowMTU) }

// Internet are more addresses of Outside, which the router has a route for.
func Internet() []netip.Addr {
	return []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}
}

// hosts are the machines behind the router.
func hosts() []Machine { return []Machine{Outside(), Far()} }

// Node is the i-th node; the first is 1.
func Node(i int) Machine { return machine("n"+strconv.Itoa(i), 10+i) }

// machine writes the host number in decimal in both families: 172.30.0.11 and fd00:172:30::11.
func machine(name string, host int) Machine {
	return Machine{
		Name: name,
		IPv4: netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 30, 0, byte(host)}), 24),
		IPv6: netip.PrefixFrom(netip.MustParseAddr(fmt.Sprintf("fd00:172:30::%d", host)), 64),
		MAC:  net.HardwareAddr{0x02, 0, 0xac, 0x1e, 0, byte(host)},
		MTU:  fabricMTU,
	}
}

// Second is a node or the router on the second network, where each has eth1. The router leads from there to the world too; a node has no route
// there but to the network itself.
func (m Machine) Second() Machine {
	host := int(m.MAC[len(m.MAC)-1])
	second := machine(m.Name, host)
	second.IPv4 = netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 31, 0, byte(host)}), 24)
	second.IPv6 = netip.PrefixFrom(netip.MustParseAddr(fmt.Sprintf("fd00:172:31::%d", host)), 64)
	second.MAC[3]++
	return second
}

func behindRouter(name, v4, v6 string, mtu int) Machine {
	m := Machine{Name: name, IPv4: netip.MustParsePrefix(v4), IPv6: netip.MustParsePrefix(v6), MTU: mtu}
	m.MAC = append(net.HardwareAddr{0x02, 0}, m.IPv4.Addr().AsSlice()...)
	return m
}

// gateways are the addresses of the router on a machine's link: the first of each subnet, with its length.
func (m Machine) gateways() []netip.Prefix {
	var first []netip.Prefix
	for _, own := range m.prefixes() {
		first = append(first, netip.PrefixFrom(own.Masked().Addr().Next(), own.Bits()))
	}
	return first
}

// prefixes are a machine's addresses, with the lengths of their subnets.
func (m Machine) prefixes() []netip.Prefix { return []netip.Prefix{m.IPv4, m.IPv6} }
