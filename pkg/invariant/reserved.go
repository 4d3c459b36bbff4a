package invariant

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam/reserved"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
)

// reservedIsFree checks the text of each VIP, whatever object it belongs to.
func reservedIsFree(v *view) (found []Violation) {
	table := v.reserved()
	for _, lb := range rowsIn[nbdb.LoadBalancer](v.Northbound, nbdb.LoadBalancerTable) {
		if !ours(lb) || lb.Protocol == nil {
			continue
		}
		for vip := range lb.Vips {
			if owner, taken := takes(vip, *lb.Protocol, table); taken {
				found = append(found, v.about([]any{lb}, "load balancer %s has the VIP %s, which is reserved for %s", lb.Name, vip, owner))
			}
		}
	}
	return found
}

// reserved returns the reserved ports and addresses of the world's nodes.
func (v *view) reserved() reserved.Table {
	table := reserved.Table{Ports: reserved.Defaults(), Nodes: map[netip.Addr]string{}}
	if v.ClusterNetwork != nil {
		table = table.WithPorts(facts.ReservedPorts(v.ClusterNetwork.Spec.ReservedPorts)...)
	}
	for name, node := range v.nodes {
		for _, address := range facts.InternalIPs(node) {
			table.Nodes[address] = name
		}
	}
	for name, nn := range v.networks {
		for _, address := range facts.ReportedAddresses(nn) {
			table.Nodes[address] = name
		}
	}
	return table
}

// takes reports whether a VIP such as "192.0.2.1:10250", or a template for all nodes, is reserved.
func takes(vip, protocol string, table reserved.Table) (owner string, taken bool) {
	host, text, err := net.SplitHostPort(vip)
	if err != nil {
		return "", false
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", false
	}
	if variable, isTemplate := strings.CutPrefix(host, "^"); isTemplate {
		if variable != names.NodeAddressVariable("IPv4") && variable != names.NodeAddressVariable("IPv6") {
			return "", false
		}
		return table.OnNodes(protocol, uint16(port))
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return "", false
	}
	return table.At(netip.AddrPortFrom(address, uint16(port)), protocol)
}
