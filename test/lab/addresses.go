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
	clusterDNS       = "10.96.0.10"
)

// fabricMTU is the link MTU of the machines. Pods get 58 bytes less (geneve over IPv4, RFC 8926).
const fabricMTU = 1500

// MaxNodes is as many as there are addresses from .11 on.
const MaxNodes = 100

// Machine is the control plane or a node.
type Machine struct {
	Name string
	IPv4 netip.Prefix
	IPv6 netip.Prefix
	MAC  net.HardwareAddr // of eth0, and of br-ex on a node
}

// ControlPlane is the machine that runs the API server and OVN's central part. It is the nodes' default gateway too.
func ControlPlane() Machine { return machine("cp", 10) }

// Node is the i-th node; the first is 1.
func Node(i int) Machine { return machine("n"+strconv.Itoa(i), 10+i) }

// machine writes the host number in decimal in both families: 172.30.0.11 and fd00:172:30::11.
func machine(name string, host int) Machine {
	return Machine{
		Name: name,
		IPv4: netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 30, 0, byte(host)}), 24),
		IPv6: netip.PrefixFrom(netip.MustParseAddr(fmt.Sprintf("fd00:172:30::%d", host)), 64),
		MAC:  net.HardwareAddr{0x02, 0, 0xac, 0x1e, 0, byte(host)},
	}
}
