// Package bindings reads this node's part of the OVN southbound database.
package bindings

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weft-network/weft/pkg/agent/absence"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/ovn/sbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	sbschema "github.com/weft-network/weft/pkg/ovndb/southbound"
)

// Bindings reads this node's part of the southbound database: its chassis, and the bindings whose options request that
// chassis. A condition on the binding's reference to the Chassis row would match nothing after that row is recreated.
// The functions run in the database's event loop and must not block.
type Bindings struct {
	// Node is this node's name.
	Node string
	// Remotes are the OVSDB remotes until Redirect names others.
	Remotes  []string
	TLS      ovndb.TLS
	Observer ovndb.Observer
	Log      logr.Logger
	// Changed is called when the connection, the chassis or a binding with host ports has changed.
	Changed func()
	// Bound receives each binding of a pod that has changed, Present each that was added or has changed. Demanded
	// receives the idle services that clients connect to.
	Bound    func(*sbdb.PortBinding)
	Present  func(*sbdb.PortBinding)
	Demanded func(vip, protocol string)
	// Unbound is called when a pod's binding was removed, or may have been while the database was disconnected.
	Unbound func()
	// Synced is called when the copy of the database is complete, once for each connection.
	Synced func()
	// Counted is called when a binding was added or removed. After a DEL the pod's binding stays until the API server
	// has deleted the pod.
	Counted func()

	conn     atomic.Pointer[ovndb.Conn]
	remotes  atomic.Pointer[[]string] // of the last Redirect
	systemID string
	absence  absence.Absence
	exposed  sync.Map        // UUID -> nil, of exposed bindings
	running  context.Context // of Start
	leaving  leaving
}

// gatewayType is the type of the ports of gateway routers and of the ports that lead to them. gatewayChassis is their
// option with the chassis (ovn-sb(5)).
const gatewayType, gatewayChassis = "l3gateway", "l3gateway-chassis"

// SystemID returns the name of the node's chassis. It is empty before Start.
func (s *Bindings) SystemID() string { return s.systemID }

// BrieflyAway reports whether the database was connected before and has been disconnected for less than limit.
func (s *Bindings) BrieflyAway(limit time.Duration) bool {
	return s.absence.ShorterThan(limit, time.Now())
}

// Wait calls ready at each change of the database and returns when ready does. Start must have been called.
func (s *Bindings) Wait(ctx context.Context, ready func() (bool, error)) error {
	return s.conn.Load().Wait(ctx, ready)
}

// Wake makes all Waits call their function again.
func (s *Bindings) Wake() {
	if conn := s.conn.Load(); conn != nil {
		conn.Wake()
	}
}

// Redirect makes Start connect to other remotes, or moves an existing connection to them unless it uses one of them.
func (s *Bindings) Redirect(remotes []string) {
	s.remotes.Store(&remotes)
	if conn := s.conn.Load(); conn != nil {
		conn.Redirect(remotes)
	}
	s.leaving.mu.Lock()
	defer s.leaving.mu.Unlock()
	if s.leaving.conn != nil {
		s.leaving.conn.Redirect(remotes)
	}
}

// Endpoints returns the present remotes.
func (s *Bindings) Endpoints() []string {
	if remotes := s.remotes.Load(); remotes != nil {
		return *remotes
	}
	return s.Remotes
}

// Start connects once the chassis' name is known; later calls do nothing.
func (s *Bindings) Start(ctx context.Context, systemID string) {
	if s.conn.Load() != nil {
		return
	}
	s.systemID, s.running = systemID, ctx
	requested := ovsdb.OvsMap{GoMap: map[any]any{names.RequestedChassis: systemID}}
	ofGateway := ovsdb.OvsMap{GoMap: map[any]any{gatewayChassis: systemID}}
	conn := ovndb.NewConn(ovndb.Config{
		Schema: sbschema.Schema(), Endpoints: s.Endpoints(), TLS: s.TLS, Observer: s.Observer, Log: s.Log,
		Where: map[string][]ovsdb.Condition{
			sbdb.PortBindingTable: {ovsdb.NewCondition("options", ovsdb.ConditionIncludes, requested),
				ovsdb.NewCondition("options", ovsdb.ConditionIncludes, ofGateway)},
			sbdb.ChassisTable:    {ovsdb.NewCondition("name", ovsdb.ConditionEqual, systemID)},
			sbdb.AddressSetTable: s.sets(),
		},
		OnConnect: s.connected,
		OnRow: func(table string, row model.Model, event ovndb.RowEvent) {
			if binding, ok := row.(*sbdb.PortBinding); ok && binding.Type == gatewayType {
				s.Changed()
				return
			}
			if binding, ok := row.(*sbdb.PortBinding); ok && event == ovndb.RowUpdated {
				s.Bound(binding)
			}
			if binding, ok := row.(*sbdb.PortBinding); ok && event != ovndb.RowRemoved {
				s.Present(binding)
			}
			if e, ok := row.(*sbdb.ControllerEvent); ok && event != ovndb.RowRemoved {
				s.reportDemand(e)
			}
			if table == sbdb.ChassisTable || table == sbdb.AddressSetTable || s.exposure(row, event) {
				s.Changed()
			}
			if table == sbdb.PortBindingTable && event != ovndb.RowUpdated {
				s.Counted()
				if event == ovndb.RowRemoved {
					s.Unbound()
				}
			}
		},
	})
	s.conn.Store(conn)
	go func() { _ = conn.Run(ctx) }() // without a fence, Run ends only with ctx
}

// sets selects the address sets that concern the node.
func (s *Bindings) sets() (selected []ovsdb.Condition) {
	for _, family := range []string{"IPv4", "IPv6"} {
		for _, name := range []string{names.Inside(family), names.EgressAddresses(s.Node, family), names.AnsweredAddresses(s.Node, family),
			names.RouterAddresses(s.Node, family)} {
			selected = append(selected, ovsdb.NewCondition("name", ovsdb.ConditionEqual, name))
		}
	}
	return selected
}

// connected receives that the connection came or went.
func (s *Bindings) connected(on bool) {
	s.absence.Note(on, time.Now())
	s.Changed()
	s.Unbound()
	if on {
		s.Synced()
	}
}

// Connected reports whether the local copy of the database is complete.
func (s *Bindings) Connected() bool {
	conn := s.conn.Load()
	return conn != nil && conn.Connected()
}

// Registered reports whether ovn-controller has created this node's Chassis row.
func (s *Bindings) Registered() bool {
	conn := s.conn.Load()
	if conn == nil {
		return false
	}
	_, ok := ovndb.Find(conn, &sbdb.Chassis{Name: s.systemID})
	return ok
}

// Find returns the port's binding if it requests this node's chassis.
func (s *Bindings) Find(port string) (*sbdb.PortBinding, bool) {
	conn := s.conn.Load()
	if conn == nil {
		return nil, false
	}
	return ovndb.Find(conn, &sbdb.PortBinding{LogicalPort: port})
}

// reportDemand passes connections to balancers without backends to Demanded, if this node's ovn-controller saw them.
func (s *Bindings) reportDemand(e *sbdb.ControllerEvent) {
	conn := s.conn.Load()
	if conn == nil || e.Chassis == nil || s.Demanded == nil {
		return
	}
	if chassis, ok := ovndb.Get[sbdb.Chassis](conn, *e.Chassis); ok && chassis.Name == s.systemID {
		s.Demanded(e.EventInfo["vip"], e.EventInfo["protocol"])
	}
}

// exposure reports whether a binding is exposed, or was before this event.
func (s *Bindings) exposure(row model.Model, event ovndb.RowEvent) bool {
	binding, ok := row.(*sbdb.PortBinding)
	if !ok {
		return false
	}
	now := isExposed(row) && event != ovndb.RowRemoved
	_, before := s.exposed.LoadAndDelete(binding.UUID)
	if now {
		s.exposed.Store(binding.UUID, nil)
	}
	return now || before || isExposed(row)
}

func isExposed(row model.Model) bool {
	binding, ok := row.(*sbdb.PortBinding)
	return ok && slices.ContainsFunc([]string{ovnexpr.HostPortsKey, ovnexpr.TranslatedKey, ovnexpr.RoutedKey}, func(key string) bool {
		return binding.ExternalIDs[key] != ""
	})
}

func isPod(b *sbdb.PortBinding) bool { return b.ExternalIDs["pod"] == "true" }

// Exposed lists the bindings of pods that concern the external bridge: with host ports, with floating addresses that the gateway
// router translates, or with routers of their own.
func (s *Bindings) Exposed() []*sbdb.PortBinding {
	conn := s.conn.Load()
	if conn == nil {
		return nil
	}
	return ovndb.List(conn, func(b *sbdb.PortBinding) bool { return isExposed(b) })
}

// Answered returns the addresses for which the node's gateway router answers in Shared mode, each with who says so: the node's set, or
// the UUID of its port's binding, which has no IPv6 addresses of EgressIPs and load balancers (northd).
func (s *Bindings) Answered() map[netip.Addr]string {
	conn := s.conn.Load()
	if conn == nil {
		return nil
	}
	found := map[netip.Addr]string{}
	for _, b := range ovndb.List(conn, func(b *sbdb.PortBinding) bool { return b.Type == gatewayType }) {
		for _, text := range b.NatAddresses { // "<MAC> <address>..."
			for _, word := range strings.Fields(text) {
				if address, err := netip.ParseAddr(word); err == nil {
					found[address] = b.UUID
				}
			}
		}
	}
	for _, address := range s.inSets(names.RouterAddresses) {
		found[address] = s.Node
	}
	return found
}

// Inside returns the networks and addresses to which pods do not leave with an egress IP.
func (s *Bindings) Inside() []netip.Prefix {
	conn := s.conn.Load()
	if conn == nil {
		return nil
	}
	return desired.InsideNetworks(ovndb.List(conn, func(*sbdb.AddressSet) bool { return true }))
}

// Nodes returns the addresses of all nodes, as of the last connection to the database.
func (s *Bindings) Nodes() map[netip.Addr]string {
	conn := s.conn.Load()
	if conn == nil {
		return nil
	}
	return desired.NodeAddresses(ovndb.List(conn, func(*sbdb.AddressSet) bool { return true }))
}

// Carried returns the sources of pods that the node's gateway router carries in Local mode, sorted.
func (s *Bindings) Carried() []netip.Addr { return s.inSets(names.EgressAddresses) }

// AnsweredByHost returns the addresses of load balancers for which the host answers in Local mode, sorted.
func (s *Bindings) AnsweredByHost() []netip.Addr { return s.inSets(names.AnsweredAddresses) }

// inSets returns the addresses in the node's sets of both families, sorted.
func (s *Bindings) inSets(name func(node, family string) string) (found []netip.Addr) {
	conn := s.conn.Load()
	if conn == nil {
		return nil
	}
	for _, set := range ovndb.List(conn, func(set *sbdb.AddressSet) bool {
		return set.Name == name(s.Node, "IPv4") || set.Name == name(s.Node, "IPv6")
	}) {
		for _, text := range set.Addresses {
			if address, err := netip.ParseAddr(text); err == nil {
				found = append(found, address)
			}
		}
	}
	slices.SortFunc(found, netip.Addr.Compare)
	return found
}

// Pods returns the number of bindings of pods.
func (s *Bindings) Pods() int {
	conn := s.conn.Load()
	if conn == nil {
		return 0
	}
	return len(ovndb.Shared(conn, isPod))
}
