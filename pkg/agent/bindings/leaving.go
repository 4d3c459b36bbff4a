package bindings

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/sbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	sbschema "github.com/weft-network/weft/pkg/ovndb/southbound"
)

// leaving is a copy of the sets of the pods that leave with some EgressIPs. It has a connection of its own, which is made again when
// there are other EgressIPs, because the conditions of a connection do not change.
type leaving struct {
	mu    sync.Mutex
	names []string // of EgressIPs
	conn  *ovndb.Conn
	end   context.CancelFunc
	read  map[*sbdb.AddressSet]map[netip.Addr]bool // the addresses of rows, which the library replaces
}

// FollowLeaving makes Leaving have the pods of exactly these EgressIPs and Services (facts.EgressNameOf), which must be sorted. Start must
// have been called.
func (s *Bindings) FollowLeaving(egressIPs []string) {
	l := &s.leaving
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Equal(l.names, egressIPs) {
		return
	}
	if l.end != nil {
		l.end()
	}
	l.names, l.conn, l.end = egressIPs, nil, nil
	if len(egressIPs) == 0 {
		return
	}
	var sets []ovsdb.Condition
	for _, name := range egressIPs {
		for _, family := range []string{"IPv4", "IPv6"} {
			sets = append(sets, ovsdb.NewCondition("name", ovsdb.ConditionEqual, names.EgressIPPods(name, family)))
		}
	}
	l.conn = ovndb.NewConn(ovndb.Config{
		Schema: sbschema.AddressSets(), Endpoints: s.Endpoints(), TLS: s.TLS, Log: s.Log.WithName("leaving"),
		Where:     map[string][]ovsdb.Condition{sbdb.AddressSetTable: sets},
		OnConnect: func(bool) { s.Changed() },
		OnRow:     s.joined(),
	})
	var ctx context.Context
	ctx, l.end = context.WithCancel(s.running)
	go func(conn *ovndb.Conn) { _ = conn.Run(ctx) }(l.conn) // without a fence, Run ends only with ctx
}

// joinDelay is how late Changed is called for pods that only came to an EgressIP. Many start at once, and new ones have no connections.
const joinDelay = time.Second

// joined returns a function that calls Changed when a set has changed: at once if addresses may have gone, and late if it only grew. The
// function runs in the event loop of one connection.
func (s *Bindings) joined() func(string, model.Model, ovndb.RowEvent) {
	sizes, waits := map[string]int{}, &atomic.Bool{}
	return func(_ string, row model.Model, event ovndb.RowEvent) {
		set, ok := row.(*sbdb.AddressSet)
		if !ok {
			return
		}
		before := sizes[set.Name]
		sizes[set.Name] = len(set.Addresses)
		if event == ovndb.RowRemoved {
			delete(sizes, set.Name)
		}
		if event != ovndb.RowUpdated || len(set.Addresses) <= before {
			s.Changed()
		} else if !waits.Swap(true) {
			time.AfterFunc(joinDelay, func() {
				waits.Store(false)
				s.Changed()
			})
		}
	}
}

// Leaving returns the addresses of the pods of the EgressIPs of FollowLeaving. A map of addresses is the same while it does not change.
// ok is false while the copy is not complete.
func (s *Bindings) Leaving() (pods desired.Leaving, ok bool) {
	l := &s.leaving
	l.mu.Lock()
	defer l.mu.Unlock()
	pods = desired.Leaving{}
	if l.conn == nil {
		return pods, true
	}
	if !l.conn.Connected() {
		return nil, false
	}
	byName := map[string]*sbdb.AddressSet{}
	read := map[*sbdb.AddressSet]map[netip.Addr]bool{}
	for _, set := range ovndb.Shared(l.conn, func(*sbdb.AddressSet) bool { return true }) {
		byName[set.Name] = set
		if read[set] = l.read[set]; read[set] == nil {
			read[set] = addressesOf(set)
		}
	}
	l.read = read
	for _, name := range l.names {
		for _, family := range []string{"IPv4", "IPv6"} {
			if set := byName[names.EgressIPPods(name, family)]; set != nil {
				pods[desired.LeavingPods{EgressIP: name, Family: family}] = read[set]
			}
		}
	}
	return pods, true
}

func addressesOf(set *sbdb.AddressSet) map[netip.Addr]bool {
	found := make(map[netip.Addr]bool, len(set.Addresses))
	for _, text := range set.Addresses {
		if address, err := netip.ParseAddr(text); err == nil {
			found[address] = true
		}
	}
	return found
}

// LocalPods returns the addresses of the node's pods on the cluster network.
func (s *Bindings) LocalPods() map[netip.Addr]bool {
	conn := s.conn.Load()
	if conn == nil {
		return nil
	}
	return desired.PodAddresses(ovndb.Shared(conn, isPod))
}
