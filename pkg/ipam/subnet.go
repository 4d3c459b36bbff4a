package ipam

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"slices"
)

// ErrExhausted means that a resource has no free value. The error that wraps it names the resource.
var ErrExhausted = errors.New("exhausted")

// firstPod is the offset of the first pod address in a subnet.
const firstPod = 3

// Network is a cluster network that is divided into node subnets.
type Network struct {
	CIDR       netip.Prefix
	HostPrefix int // prefix length of each node's subnet
}

// NextSubnet returns the first subnet of the network that overlaps no used subnet, or ErrExhausted.
func (n Network) NextSubnet(used []netip.Prefix) (netip.Prefix, error) {
	used = slices.DeleteFunc(slices.Clone(used), func(u netip.Prefix) bool { return !u.Overlaps(n.CIDR) })
	slices.SortFunc(used, netip.Prefix.Compare) // so that each is compared once
	subnet, rest := netip.PrefixFrom(n.CIDR.Masked().Addr(), n.HostPrefix), used
	for n.CIDR.Contains(subnet.Addr()) && subnet.Addr().IsValid() {
		for len(rest) > 0 && !rest[0].Overlaps(subnet) && rest[0].Addr().Less(subnet.Addr()) {
			rest = rest[1:]
		}
		if len(rest) == 0 || !rest[0].Overlaps(subnet) {
			return subnet, nil
		}
		subnet = after(subnet, rest[0])
	}
	return netip.Prefix{}, fmt.Errorf("no subnet of length /%d is left in %s: %w", n.HostPrefix, n.CIDR, ErrExhausted)
}

// Part returns subnet number index of the network, counted from 0, or ErrExhausted.
func (n Network) Part(index int) (netip.Prefix, error) {
	bits := n.CIDR.Addr().BitLen()
	size := new(big.Int).Lsh(big.NewInt(int64(index)), uint(bits-n.HostPrefix))
	first := toInt(n.CIDR.Masked().Addr())
	part := netip.PrefixFrom(fromInt(first.Add(first, size), bits), n.HostPrefix)
	if index < 0 || !part.Addr().IsValid() || !n.CIDR.Contains(part.Addr()) {
		return netip.Prefix{}, fmt.Errorf("%s has no subnet of length /%d with number %d: %w", n.CIDR, n.HostPrefix, index, ErrExhausted)
	}
	return part, nil
}

// after returns the subnet of the same length that follows the clash, which may be the larger of the two.
func after(subnet, clash netip.Prefix) netip.Prefix {
	bits := min(subnet.Bits(), clash.Bits())
	size := new(big.Int).Lsh(big.NewInt(1), uint(subnet.Addr().BitLen()-bits))
	base := toInt(netip.PrefixFrom(subnet.Addr(), bits).Masked().Addr())
	return netip.PrefixFrom(fromInt(base.Add(base, size), subnet.Addr().BitLen()), subnet.Bits())
}

// Total counts the pod addresses of the whole network, at most math.MaxInt64.
func (n Network) Total() int64 {
	subnets := new(big.Int).Lsh(big.NewInt(1), uint(n.HostPrefix-n.CIDR.Bits()))
	total := subnets.Mul(subnets, big.NewInt(Capacity(netip.PrefixFrom(n.CIDR.Addr(), n.HostPrefix))))
	if !total.IsInt64() {
		return math.MaxInt64
	}
	return total.Int64()
}

// Capacity counts the addresses of a subnet that pods can have, at most math.MaxInt64. It excludes the network's
// address, the gateway's, the management port's and, for IPv4, the broadcast address.
func Capacity(subnet netip.Prefix) int64 {
	hostBits := subnet.Addr().BitLen() - subnet.Bits()
	if hostBits >= 63 {
		return math.MaxInt64
	}
	return max(0, int64(1)<<hostBits-firstPod-broadcast(subnet))
}

func broadcast(subnet netip.Prefix) int64 {
	if subnet.Addr().Is4() {
		return 1
	}
	return 0
}

// Gateway returns the cluster router's address in a node's subnet, the first.
func Gateway(subnet netip.Prefix) netip.Addr { return offset(subnet, 1) }

// Management returns the host's address in its node's subnet, the second.
func Management(subnet netip.Prefix) netip.Addr { return offset(subnet, 2) }

// LocalNodePorts returns the addresses at which a node's host reaches node ports of services with the external
// traffic policy Local, which have only the backends of that node. The IPv4 address is first.
func LocalNodePorts() []netip.Addr {
	return []netip.Addr{netip.AddrFrom4([4]byte{169, 254, 169, 3}), netip.AddrFrom16([16]byte{0: 0xfd, 1: 0x69, 15: 3})}
}

// Nowhere returns the addresses to which every router discards packets. The IPv4 address is first.
func Nowhere() []netip.Addr {
	return []netip.Addr{netip.AddrFrom4([4]byte{169, 254, 169, 4}), netip.AddrFrom16([16]byte{0: 0xfd, 1: 0x69, 15: 4})}
}

// NowhereOf returns the endpoint that a balancer has instead of none, in an address's family: a balancer of OVN has no option to
// drop packets.
func NowhereOf(family netip.Addr) netip.AddrPort {
	all := Nowhere()
	if family.Is4() {
		return netip.AddrPortFrom(all[0], 1)
	}
	return netip.AddrPortFrom(all[1], 1)
}

// EgressLink returns the networks of the link between a node's host and its gateway router in Local mode, with the host's
// addresses or the router's. Each node has the same. The IPv4 network is first.
func EgressLink(router bool) []netip.Prefix {
	last := byte(9)
	if router {
		last = 10
	}
	const lengthIPv4, lengthIPv6 = 30, 126
	return []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{169, 254, 169, last}), lengthIPv4),
		netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0xfd, 1: 0x69, 15: last}), lengthIPv6)}
}

// FirstPod returns the first pod address of a subnet.
func FirstPod(subnet netip.Prefix) netip.Addr { return offset(subnet, firstPod) }

// IsPodAddress reports whether a pod can have the address in the subnet.
func IsPodAddress(subnet netip.Prefix, address netip.Addr) bool {
	if !subnet.Contains(address) || address.Less(FirstPod(subnet)) {
		return false
	}
	return broadcast(subnet) == 0 || subnet.Contains(address.Next())
}

// Addresses returns the addresses of prefixes without their lengths.
func Addresses(prefixes []netip.Prefix) []netip.Addr {
	addresses := make([]netip.Addr, 0, len(prefixes))
	for _, p := range prefixes {
		addresses = append(addresses, p.Addr())
	}
	return addresses
}

// Host returns address n of a prefix. Address 0 is the network's own. The result is invalid beyond the address space.
func Host(prefix netip.Prefix, n int) netip.Addr { return offset(prefix, int64(n)) }

func offset(subnet netip.Prefix, n int64) netip.Addr {
	base := toInt(subnet.Masked().Addr())
	return fromInt(base.Add(base, big.NewInt(n)), subnet.Addr().BitLen())
}

func toInt(a netip.Addr) *big.Int { return new(big.Int).SetBytes(a.AsSlice()) }

func fromInt(n *big.Int, bits int) netip.Addr {
	if n.BitLen() > bits {
		return netip.Addr{}
	}
	a, _ := netip.AddrFromSlice(n.FillBytes(make([]byte, bits/8)))
	return a
}
