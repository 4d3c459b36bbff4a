package agent

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weft-network/weft/pkg/ovndb"
	sbschema "github.com/weft-network/weft/pkg/ovndb/southbound"
	"github.com/weft-network/weft/pkg/ovnexpr"
	"github.com/weft-network/weft/pkg/sbdb"
)

// southbound reads this node's part of the southbound database: the bindings that ask for its chassis, and the chassis. A
// condition on the binding's reference to the Chassis row would go blind when that row is made anew.
type southbound struct {
	remotes  []string
	told     []string // the remotes that ovn-controller is told
	tls      ovndb.TLS
	observer ovndb.Observer
	log      logr.Logger
	changed  func()
	bound    func(*sbdb.PortBinding)    // a pod's port changed
	demanded func(vip, protocol string) // somebody asked for an idle service; it must not wait
	unbound  func()                     // a pod's port went, or any may have while the database was away
	counted  func()                     // a binding came or went: after a DEL, the pod's stays until the API server has let go of it

	conn     atomic.Pointer[ovndb.Conn]
	systemID string
	absence  absence
}

// start connects once the chassis' name is known; later calls do nothing.
func (s *southbound) start(ctx context.Context, systemID string) {
	if s.conn.Load() != nil {
		return
	}
	s.systemID = systemID
	requested := ovsdb.OvsMap{GoMap: map[any]any{"requested-chassis": systemID}}
	conn := ovndb.NewConn(ovndb.Config{
		Schema: sbschema.Schema(), Endpoints: s.remotes, TLS: s.tls, Observer: s.observer, Log: s.log,
		Where: map[string][]ovsdb.Condition{
			sbdb.PortBindingTable: {ovsdb.NewCondition("options", ovsdb.ConditionIncludes, requested)},
			sbdb.ChassisTable:     {ovsdb.NewCondition("name", ovsdb.ConditionEqual, systemID)},
		},
		OnConnect: func(on bool) { s.absence.note(on, time.Now()); s.changed(); s.unbound() },
		OnRow: func(table string, row model.Model, event ovndb.RowEvent) {
			if binding, ok := row.(*sbdb.PortBinding); ok && event == ovndb.RowUpdated {
				s.bound(binding)
			}
			if e, ok := row.(*sbdb.ControllerEvent); ok && event != ovndb.RowRemoved {
				s.toldOf(e)
			}
			if table == sbdb.ChassisTable || hasHostPorts(row) {
				s.changed()
			}
			if table == sbdb.PortBindingTable && event != ovndb.RowUpdated {
				s.counted()
				if event == ovndb.RowRemoved {
					s.unbound()
				}
			}
		},
	})
	s.conn.Store(conn)
	go func() { _ = conn.Run(ctx) }() // without a fence it ends only with ctx
}

// connected reports whether the copy is complete.
func (s *southbound) connected() bool {
	conn := s.conn.Load()
	return conn != nil && conn.Connected()
}

// registered reports whether ovn-controller has made this node's Chassis.
func (s *southbound) registered() bool {
	conn := s.conn.Load()
	if conn == nil {
		return false
	}
	_, ok := ovndb.Find(conn, &sbdb.Chassis{Name: s.systemID})
	return ok
}

// binding returns the port's binding if it asks for this node.
func (s *southbound) binding(port string) (*sbdb.PortBinding, bool) {
	conn := s.conn.Load()
	if conn == nil {
		return nil, false
	}
	return ovndb.Find(conn, &sbdb.PortBinding{LogicalPort: port})
}

// toldOf passes on what this node's ovn-controller tells of connections to balancers without backends.
func (s *southbound) toldOf(e *sbdb.ControllerEvent) {
	conn := s.conn.Load()
	if conn == nil || e.Chassis == nil || s.demanded == nil {
		return
	}
	if chassis, ok := ovndb.Get[sbdb.Chassis](conn, *e.Chassis); ok && chassis.Name == s.systemID {
		s.demanded(e.EventInfo["vip"], e.EventInfo["protocol"])
	}
}

func hasHostPorts(row model.Model) bool {
	binding, ok := row.(*sbdb.PortBinding)
	return ok && binding.ExternalIDs[ovnexpr.HostPortsKey] != ""
}

// withHostPorts lists the bindings of pods that ports of the node lead to.
func (s *southbound) withHostPorts() []*sbdb.PortBinding {
	conn := s.conn.Load()
	if conn == nil {
		return nil
	}
	return ovndb.List(conn, func(b *sbdb.PortBinding) bool { return hasHostPorts(b) })
}

// pods counts the bindings of pods.
func (s *southbound) pods() int {
	conn := s.conn.Load()
	if conn == nil {
		return 0
	}
	return len(ovndb.List(conn, func(b *sbdb.PortBinding) bool { return b.ExternalIDs["pod"] == "true" }))
}
