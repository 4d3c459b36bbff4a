package chassis

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"
	"github.com/ovn-kubernetes/libovsdb/ovsdb/serverdb"

	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/sbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/serverstate"
	"github.com/weft-network/weft/pkg/unit"
)

// southboundName is the name of the database in _Server.
const southboundName = "OVN_Southbound"

// Options select the databases.
type Options struct {
	// Northbound are OVSDB remotes of the northbound database, at least one.
	Northbound []string
	// Southbound is the OVSDB remote of one server of the southbound database. In a cluster, Run writes only while this
	// server leads.
	Southbound string
	// Writer names this program and its version in the log of the southbound database. If it is empty, transactions
	// have no comments.
	Writer string
	// LeftAfter is how long the chassis of an ovn-controller must have had no node before it is removed. 0 means a minute.
	LeftAfter time.Duration
	Log       logr.Logger
}

// follower copies from the northbound database. Only the goroutine of Run uses its fields, except events.
type follower struct {
	Options
	events   chan struct{}     // a row or a connection has changed
	server   *ovndb.Conn       // the state of the southbound server
	nodes    *ovndb.Conn       // the northbound database
	problems []Problem         // of the last comparison
	refused  map[unit.Key]bool // the chassis that the southbound database refused in the last comparison
	left     left
}

// Run follows the databases until ctx ends. It reconnects forever.
func Run(ctx context.Context, options Options) {
	f := &follower{Options: options, events: make(chan struct{}, 1), left: left{after: cmp.Or(options.LeftAfter, leftAfter)}}
	onRow := func(string, model.Model, ovndb.RowEvent) { f.notify() }
	onConnect := func(bool) { f.notify() }
	f.server = ovndb.NewConn(ovndb.Config{Schema: serverstate.Schema(), Endpoints: []string{f.Southbound}, Log: f.Log,
		OnRow: onRow, OnConnect: onConnect})
	f.nodes = ovndb.NewConn(ovndb.Config{Schema: northboundSchema(), Endpoints: f.Northbound, Log: f.Log,
		OnRow: onRow, OnConnect: onConnect, Where: map[string][]ovsdb.Condition{
			nbdb.LogicalSwitchPortTable: {ovsdb.NewCondition("type", ovsdb.ConditionEqual, names.RemotePort)}}})
	var ended []<-chan struct{}
	for _, conn := range []*ovndb.Conn{f.server, f.nodes} {
		ended = append(ended, start(func() { _ = conn.Run(ctx) })) // without a fence, Run ends only with ctx
	}
	for ctx.Err() == nil {
		if f.leads() {
			f.write(ctx)
		} else {
			f.wait(ctx, nil)
		}
	}
	for _, end := range ended {
		<-end
	}
}

// start runs a function in a goroutine. The channel is closed when it returns.
func start(run func()) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		run()
	}()
	return ended
}

func (f *follower) notify() {
	select {
	case f.events <- struct{}{}:
	default:
	}
}

func (f *follower) wait(ctx context.Context, due <-chan time.Time) {
	select {
	case <-ctx.Done():
	case <-f.events:
	case <-due:
	}
}

// leads reports whether the southbound server may write. A database without a cluster has no other leader.
func (f *follower) leads() bool {
	return len(ovndb.Shared(f.server, func(d *serverdb.Database) bool {
		return d.Name == southboundName && d.Leader && d.Connected
	})) > 0
}

// write keeps the southbound database up to date until its server no longer leads, or ctx ends.
func (f *follower) write(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	engine := ovndb.NewEngine(ovndb.Config{Schema: southboundSchema(), Endpoints: []string{f.Southbound}, Writer: f.Writer, Log: f.Log,
		OnRow: func(string, model.Model, ovndb.RowEvent) { f.notify() }, OnConnect: func(bool) { f.notify() },
		Where: map[string][]ovsdb.Condition{
			sbdb.PortBindingTable: {ovsdb.NewCondition("type", ovsdb.ConditionEqual, names.RemotePort)}}},
		func(unit.Key, error) { f.notify() })
	ended := start(func() { _ = engine.Run(ctx) })
	defer func() {
		stop()
		<-ended
	}()
	applied := map[unit.Key]bool{}
	f.left.since = nil // nothing was compared meanwhile
	for f.leads() && ctx.Err() == nil {
		f.wait(ctx, f.apply(ctx, engine, applied))
	}
}

// apply compares the databases once. It does nothing unless both are connected, because an absent northbound database
// does not mean that the zone has no nodes. applied has the chassis that the engine keeps. due is when to compare again, although
// nothing changes.
func (f *follower) apply(ctx context.Context, engine *ovndb.Engine, applied map[unit.Key]bool) (due <-chan time.Time) {
	northbound, err := f.nodes.Rows(ctx)
	if err != nil {
		return nil
	}
	southbound, err := engine.Rows(ctx)
	if err != nil {
		return nil
	}
	chassis, problems := Compute(rowsOf[nbdb.LogicalSwitchPort](northbound[nbdb.LogicalSwitchPortTable]))
	f.logProblems(problems)
	var units []unit.Unit
	for _, key := range obsolete(chassis, applied, southbound) {
		units = append(units, unit.Unit{Key: key})
		delete(applied, key)
	}
	for _, c := range chassis {
		units = append(units, c.Unit())
		applied[unit.NewKey(kind, c.Name)] = true
	}
	if err := engine.ApplyAll(ctx, units...); ctx.Err() == nil {
		f.logRefused(err)
	}
	f.remove(ctx, southbound, northbound)
	return f.left.next(time.Now())
}

// obsolete returns the units that have a row in the southbound database, or are applied, and that may go. A chassis
// without a port stays while a binding requests it, unless another chassis takes its tunnel end.
func obsolete(chassis []Chassis, applied map[unit.Key]bool, southbound map[string][]model.Model) []unit.Key {
	wanted, ends := map[unit.Key]bool{}, map[string]bool{}
	for _, c := range chassis {
		wanted[unit.NewKey(kind, c.Name)] = true
		for _, e := range c.Encaps {
			ends[e.IP.String()] = true
		}
	}
	stays := map[unit.Key]bool{}
	for _, b := range rowsOf[sbdb.PortBinding](southbound[sbdb.PortBindingTable]) {
		stays[unit.NewKey(kind, b.Options[names.RequestedChassis])] = true
	}
	for _, e := range rowsOf[sbdb.Encap](southbound[sbdb.EncapTable]) {
		if ends[e.IP] {
			stays[unit.NewKey(kind, e.ChassisName)] = false
		}
	}
	candidates := map[unit.Key]bool{}
	for key := range applied {
		candidates[key] = true
	}
	for _, c := range rowsOf[sbdb.Chassis](southbound[sbdb.ChassisTable]) {
		if key := unit.Key(c.ExternalIDs[unit.OwnerKey]); key.Kind() == kind {
			candidates[key] = true
		}
	}
	var found []unit.Key
	for key := range candidates {
		if !wanted[key] && !stays[key] {
			found = append(found, key)
		}
	}
	slices.Sort(found)
	return found
}

func rowsOf[T any](rows []model.Model) []*T {
	found := make([]*T, 0, len(rows))
	for _, row := range rows {
		if typed, ok := row.(*T); ok {
			found = append(found, typed)
		}
	}
	return found
}

// logProblems logs the problems when they change.
func (f *follower) logProblems(problems []Problem) {
	for _, p := range problems {
		if !slices.Contains(f.problems, p) {
			f.Log.Info("cannot make a chassis for a remote port; the port is skipped until it changes", "port", p.Port, "reason", p.Reason)
		}
	}
	f.problems = problems
}

// logRefused logs each chassis that the southbound database refuses, once until the database accepts it.
func (f *follower) logRefused(err error) {
	refused := map[unit.Key]bool{}
	for _, rejected := range rejections(err) {
		refused[rejected.Unit] = true
		if !f.refused[rejected.Unit] {
			f.Log.Info("cannot write the chassis of a remote node; retrying when a database changes", "chassis", rejected.Unit.Name(),
				"reason", rejected.Err.Error())
		}
	}
	f.refused = refused
}

// rejections lists the RejectedErrors in the error of ApplyAll.
func rejections(err error) []*ovndb.RejectedError {
	var found []*ovndb.RejectedError
	var one *ovndb.RejectedError
	switch joined, ok := err.(interface{ Unwrap() []error }); {
	case ok:
		for _, e := range joined.Unwrap() {
			found = append(found, rejections(e)...)
		}
	case errors.As(err, &one):
		found = append(found, one)
	}
	return found
}
