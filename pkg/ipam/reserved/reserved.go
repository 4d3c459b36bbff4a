// Package reserved lists the destinations that belong to the cluster's own control plane. No host port, node port,
// external IP or load balancer's address may lead such a destination elsewhere. Weft's rows for it could cut off
// Weft, kubelet or the API server, and then no one could remove them.
//
// The operator leaves reserved destinations out of OVN, the agent out of the host. Both use the same Table.
package reserved

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/weft-network/weft/pkg/ports"
)

// Port is a port that is reserved at every address of every node.
type Port struct {
	Protocol string // "tcp", "udp" or "sctp"
	Number   uint16
	Owner    string // "kubelet"
}

// Destination is a port that is reserved at one address, which need not be a node's.
type Destination struct {
	Port
	Address netip.Addr
}

// Table lists the reservations that concern the caller.
type Table struct {
	Ports        []Port
	Destinations []Destination
	// Sessions are what nodes' sessions of BGP and BFD need. Only these ports of an address are reserved, and no port of a node.
	Sessions []Destination
	// Nodes maps addresses of nodes to the node's name, or to "" if only the address is known.
	Nodes map[netip.Addr]string
	// Networks are the networks of pods and of gateway routers, Services the networks of cluster IPs. All their addresses are reserved.
	Networks, Services []netip.Prefix
}

// Defaults returns the default ports of Weft, OVN and Kubernetes.
func Defaults() []Port {
	return []Port{
		{"tcp", 2379, "etcd"},
		{"tcp", 2380, "etcd"},
		{"tcp", 2381, "etcd"},
		{"udp", ports.Geneve, "Geneve tunnels"},
		{"tcp", 6443, "the Kubernetes API server"},
		{"tcp", ports.Northbound, "the OVN northbound database"},
		{"tcp", ports.Southbound, "the OVN southbound database"},
		{"tcp", ports.Members, "members of the OVN databases"},
		{"tcp", ports.SouthboundMembers, "members of the OVN databases"},
		{"tcp", ports.OperatorHealth, "health checks of the Weft operator"},
		{"tcp", ports.OperatorMetrics, "metrics of the Weft operator"},
		{"tcp", ports.AgentHealth, "health checks of the Weft agent"},
		{"tcp", ports.AgentMetrics, "metrics of the Weft agent"},
		{"tcp", ports.OperandsHealth, "health checks of weft-operands"},
		{"tcp", ports.OperandsMetrics, "metrics of weft-operands"},
		{"tcp", ports.ZoneOperatorHealth, "health checks of a zone's Weft operator"},
		{"tcp", ports.ZoneOperatorMetrics, "metrics of a zone's Weft operator"},
		{"tcp", 10248, "kubelet"},
		{"tcp", 10250, "kubelet"},
		{"tcp", 10255, "kubelet"},
		{"tcp", ports.ProxyHealth, "health checks of nodes for load balancers"},
		{"tcp", 10257, "kube-controller-manager"},
		{"tcp", 10259, "kube-scheduler"},
		{"tcp", ports.SouthboundReader, "the OVN southbound database"},
		{"tcp", ports.SouthboundSource, "relays of the OVN southbound database"},
		{"tcp", ports.Relay, "relays of the OVN southbound database"},
		{"tcp", ports.RelayReader, "relays of the OVN southbound database"},
	}
}

// OnNodes returns the owner of a port at the addresses of nodes. ok is false if the port is free.
func (t Table) OnNodes(protocol string, number uint16) (owner string, ok bool) {
	protocol = strings.ToLower(protocol)
	if owner, ok = t.everywhere(protocol, number); ok {
		return owner, true
	}
	for _, d := range t.Destinations {
		if _, onNode := t.Nodes[d.Address]; onNode && d.Protocol == protocol && d.Number == number {
			return d.Owner, true
		}
	}
	return "", false
}

// everywhere returns the owner of a port that is reserved on every node.
func (t Table) everywhere(protocol string, number uint16) (owner string, ok bool) {
	for _, p := range t.Ports {
		if p.Protocol == protocol && p.Number == number {
			return p.Owner, true
		}
	}
	return "", false
}

// At returns the owner of an address and port. A loopback address of the host counts as an address of a node, and so
// does any address in Destinations, because etcd and databases may run beside the API server on a machine that is no
// node.
func (t Table) At(destination netip.AddrPort, protocol string) (owner string, ok bool) {
	address := destination.Addr().Unmap()
	protocol = strings.ToLower(protocol)
	for _, d := range slices.Concat(t.Destinations, t.Sessions) {
		if d.Address == address && d.Protocol == protocol && d.Number == destination.Port() {
			return d.Owner, true
		}
	}
	if node, onNode := t.Nodes[address]; onNode || address.IsLoopback() || t.Has(address) {
		owner, ok = t.everywhere(protocol, destination.Port())
		if ok && node != "" {
			owner += " on node " + node
		}
		return owner, ok
	}
	for _, network := range slices.Concat(t.Networks, t.Services) {
		if network.Contains(address) {
			return fmt.Sprintf("the cluster's own network %s", network), true
		}
	}
	return "", false
}

// Has reports whether one of the destinations has the address.
func (t Table) Has(address netip.Addr) bool {
	return slices.ContainsFunc(t.Destinations, func(d Destination) bool { return d.Address == address })
}

// WithPorts returns the table with more ports. If two entries have the same port, the first keeps its owner.
func (t Table) WithPorts(more ...Port) Table {
	t.Ports = slices.Concat(t.Ports, more)
	slices.SortStableFunc(t.Ports, comparePorts)
	t.Ports = slices.CompactFunc(t.Ports, func(a, b Port) bool { return comparePorts(a, b) == 0 })
	return t
}

func comparePorts(a, b Port) int {
	return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Number, b.Number))
}

// Remotes returns the destinations of OVSDB remotes such as "ssl:192.0.2.10:6641". It skips sockets and host names,
// because they have no address.
func Remotes(owner string, remotes ...string) (found []Destination) {
	for _, remote := range remotes {
		scheme, rest, _ := strings.Cut(strings.TrimSpace(remote), ":")
		if scheme != "tcp" && scheme != "ssl" {
			continue
		}
		if at, err := netip.ParseAddrPort(rest); err == nil {
			found = append(found, Destination{Port{"tcp", at.Port(), owner}, at.Addr().Unmap()})
		}
	}
	return found
}
