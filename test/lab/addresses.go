package lab

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/weft-network/weft/pkg/ports"
)

// Addresses that manifests and tests may rely on. Each lab has its own network, so two labs may use the same
// addresses.
const (
	APIServer    = "172.30.0.10:6443"
	ServiceCIDRs = "10.96.0.0/16,fd00:10:96::/112"
	ClusterCIDRs = "10.244.0.0/16,fd00:10:244::/48"
)

// OVSDB remotes of the lab's databases.
var (
	Northbound = "ssl:172.30.0.10" + ports.Any(ports.Northbound)
	// Southbound is the ovn-controllers' listener, with OVN's role. SouthboundReader is read-only.
	Southbound       = "ssl:172.30.0.10" + ports.Any(ports.Southbound)
	SouthboundReader = "ssl:172.30.0.10" + ports.Any(ports.SouthboundReader)
)

// fabricMTU is the link MTU of the machines. Pods get 58 bytes less (geneve over IPv4, RFC 8926).
const fabricMTU = 1500

// MaxNodes is the number of node addresses, which start at .11.
const MaxNodes = 100

// narrowMTU is the MTU of the link to the far host. It is smaller than the MTU of every other link and larger than
// the minimum for IPv6 (RFC 8200 §5).
const narrowMTU = 1300

// Machine is the control plane, a node, the router, or a host behind the router.
type Machine struct {
	Name string
	IPv4 netip.Prefix
	IPv6 netip.Prefix
	MAC  net.HardwareAddr // of eth0, and of br-ex on a node
	MTU  int              // of its cable
	// Plain is a node with its addresses on eth0 and without br-ex; the product creates the bridge.
	Plain bool
	// Bare is a plain node with only kubelet and containerd.
	Bare bool
}

// ControlPlane is the machine that runs the API server and OVN's databases.
func ControlPlane() Machine { return machine("cp", 10) }

// Router is the default gateway of all machines: over eth0 for machines on the fabric, and over a link with the
// host's name for each host behind it. It is a plain Linux router without routes to pods and services.
func Router() Machine { return machine("rt", 1) }

// Outside is a host outside the cluster. The cluster's machines reach it only over their default route.
func Outside() Machine {
	return behindRouter("out", "198.51.100.10/24", "2001:db8:100::10/64", fabricMTU)
}

// Far is a host behind a narrow link. The router reports larger packets to their sender.
func Far() Machine { return behindRouter("far", "203.0.113.10/24", "2001:db8:200::10/64", narrowMTU) }

// Internet returns further addresses of Outside for which the router has a route.
func Internet() []netip.Addr {
	return []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}
}

// hosts are the machines behind the router.
func hosts() []Machine { return []Machine{Outside(), Far()} }

// Node returns the i-th node, counted from 1.
func Node(i int) Machine { return machine("n"+strconv.Itoa(i), 10+i) }

// machine puts the host number in decimal into both families: 172.30.0.11 and fd00:172:30::11.
func machine(name string, host int) Machine {
	return Machine{
		Name: name,
		IPv4: netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 30, 0, byte(host)}), 24),
		IPv6: netip.PrefixFrom(netip.MustParseAddr(fmt.Sprintf("fd00:172:30::%d", host)), 64),
		MAC:  net.HardwareAddr{0x02, 0, 0xac, 0x1e, 0, byte(host)},
		MTU:  fabricMTU,
	}
}

// Second returns a node or the router with its addresses on the second network, where each has eth1. The router
// connects that network to the outside too. A node has no route over it except to the network itself.
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

// gateways returns the router's addresses on a machine's link: the first address of each subnet, with its prefix
// length.
func (m Machine) gateways() []netip.Prefix {
	var first []netip.Prefix
	for _, own := range m.prefixes() {
		first = append(first, netip.PrefixFrom(own.Masked().Addr().Next(), own.Bits()))
	}
	return first
}

// prefixes returns a machine's addresses with their prefix lengths.
func (m Machine) prefixes() []netip.Prefix { return []netip.Prefix{m.IPv4, m.IPv6} }
