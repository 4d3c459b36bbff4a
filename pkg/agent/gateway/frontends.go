package gateway

import (
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam/reserved"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/sbdb"
)

// frontends returns what clients outside can connect to at this node: services, and attached pods with host ports.
func (r *Gateway) frontends(table reserved.Table) []desired.Frontend {
	services, _ := r.Services.frontends()
	services = desired.WithLoopback(services, r.addresses.Own, table.Networks)
	all := append(services, desired.HostPorts(r.attached(r.outside.bindings), r.addresses.Own)...)
	return desired.Unreserved(desired.Unheld(all, table.Nodes, r.addresses.Own), table)
}

// readHostPorts reads the bindings with host ports or translated addresses, and reports whether they have been read. While the southbound
// database is disconnected, the bindings stay unchanged.
func (r *Gateway) readHostPorts() bool {
	if r.Bindings.Connected() && r.Attachments.Ready() {
		r.outside.bindings, r.outside.nodes = r.Bindings.Exposed(), r.Bindings.Nodes()
		r.outside.answered = r.Bindings.Answered()
		_, r.outside.egress = r.Bindings.Find(names.EgressPort(r.Node))
		r.outside.carried, r.outside.balanced = r.Bindings.Carried(), r.Bindings.AnsweredByHost()
		r.outside.hostPortsRead = true
		r.outside.expose(r.outside.bindings)
	}
	return r.outside.hostPortsRead
}

// expose records which interfaces have host ports. It must run before the attachments are read. An attachment that is
// added meanwhile is then in that read or finds itself exposed.
func (o *outside) expose(bindings []*sbdb.PortBinding) {
	exposed := make(map[string]bool, len(bindings))
	for _, b := range bindings {
		exposed[b.LogicalPort] = true
	}
	o.exposed.Store(&exposed)
}

// exposes reports whether the pod of an interface has host ports.
func (o *outside) exposes(interfaceID string) bool {
	exposed := o.exposed.Load()
	return exposed != nil && (*exposed)[interfaceID]
}

// attached returns the bindings of pods that have an interface on this node. A pod that the runtime has removed loses
// its host ports at once, even if the operator is down and has not removed its row. Such a port may be the one by which
// the operator reaches the database.
func (r *Gateway) attached(bindings []*sbdb.PortBinding) []*sbdb.PortBinding {
	return slices.DeleteFunc(slices.Clone(bindings), func(b *sbdb.PortBinding) bool {
		a, ok := r.Attachments.Get(b.LogicalPort)
		return !ok || a.PodUID != b.Options[names.InterfaceVersion] || r.Sandboxes.IsLost(a.ContainerID)
	})
}

// reserved returns the destinations that no service or host port of this node may use.
func (r *Gateway) reserved(spec networkv1alpha1.NodeNetworkSpec) reserved.Table {
	table := reserved.Table{
		Ports: reserved.Defaults(), Nodes: maps.Clone(r.outside.nodes), Networks: facts.NodeReserved(spec),
	}
	if table.Nodes == nil {
		table.Nodes = map[netip.Addr]string{}
	}
	for _, address := range r.addresses.Own {
		table.Nodes[address] = r.Node
	}
	table.Services = desired.Prefixes(spec.ServiceSubnets)
	for _, d := range slices.Concat(r.Configured, r.Services.apiServers()) {
		// A cluster IP of the API server has its own, correct translation.
		if !slices.ContainsFunc(table.Services, func(p netip.Prefix) bool { return p.Contains(d.Address) }) {
			table.Destinations = append(table.Destinations, d)
		}
	}
	table.Sessions = desired.Sessions(spec, desired.Watched(r.outside.bindings))
	return table.WithPorts(desired.ReservedPorts(spec)...).WithPorts(r.Listens...).WithPorts(r.Services.checks.ports()...)
}

// OwnerOf returns who has a port of this node's addresses: a reservation, or a service's node port. Until the
// reconciler has computed the reservations, they are the defaults, and the operator refuses what is reserved. Any
// goroutine may call OwnerOf.
func (r *Gateway) OwnerOf(protocol string, port uint16) (owner string, ok bool) {
	table := r.outside.reserved.Load()
	if table == nil {
		defaults := reserved.Table{Ports: reserved.Defaults()}.WithPorts(r.Listens...)
		table = &defaults
	}
	if owner, ok = table.OnNodes(protocol, port); ok {
		return owner, true
	}
	return r.Services.ownerOf(protocol, port)
}

// Configured returns the reserved destinations from an agent's configuration: the databases and the API server.
func Configured(southbound, controller []string, apiServer netip.AddrPort) []reserved.Destination {
	const owner = "the OVN southbound database"
	found := append(reserved.Remotes(owner, southbound...), reserved.Remotes(owner, controller...)...)
	if apiServer.IsValid() {
		found = append(found, reserved.Remotes("the Kubernetes API server", "tcp:"+apiServer.String())...)
	}
	return found
}

// Listens returns the ports of an agent's own listeners, from addresses such as ":9442". The address "0" has no port.
func Listens(addresses []string) (found []reserved.Port) {
	for _, address := range addresses {
		_, text, err := net.SplitHostPort(address)
		if err != nil {
			continue
		}
		if port, err := strconv.ParseUint(text, 10, 16); err == nil && port != 0 {
			found = append(found, reserved.Port{Protocol: "tcp", Number: uint16(port), Owner: "the Weft agent"})
		}
	}
	return found
}
