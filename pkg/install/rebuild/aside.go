package rebuild

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/weft-network/weft/pkg/install/beside"
	"github.com/weft-network/weft/pkg/ovn/wire"
)

// aside holds the new databases and the processes that run beside the live databases.
type aside struct {
	nbServer, sbServer *beside.Server
	northd             *beside.Process
	northdEnded        context.Context
	nb, sb             *wire.Database
	computed           int64 // nb_cfg of the copied northbound database
	live               int64 // nb_cfg of the live northbound database when it was copied
}

// stop closes the connections and stops all processes. It may be called again.
func (a *aside) stop() {
	for _, d := range []*wire.Database{a.nb, a.sb} {
		if d != nil {
			d.Close()
		}
	}
	if a.northd != nil {
		a.northd.Stop()
	}
	for _, s := range []*beside.Server{a.nbServer, a.sbServer} {
		if s != nil {
			s.Stop()
		}
	}
}

// copyNorthbound copies all rows of the live northbound database, UUIDs included.
func (r *rebuild) copyNorthbound(ctx context.Context) (string, error) {
	schema, err := r.liveNB.Schema(ctx)
	if err != nil {
		return "", err
	}
	names, err := wire.Tables(schema)
	if err != nil {
		return "", err
	}
	live, err := r.liveNB.Snapshot(ctx, names...)
	if err != nil {
		return "", err
	}
	if len(live["Logical_Switch"]) == 0 {
		return "", errors.New("the northbound database is empty; use --nb to rebuild a lost northbound database")
	}
	r.aside.nbServer, r.aside.nb, err = beside.Serve(ctx, r.Programs, r.sockets, folderOf(r.SBFile), "nb", wire.Northbound, schema)
	if err != nil {
		return "", err
	}
	operations := live.InsertAll(names...)
	if len(live["NB_Global"]) > 0 {
		r.aside.live = live["NB_Global"][0].Number("nb_cfg")
	}
	r.aside.computed = r.aside.live
	_, err = r.aside.nb.Transact(ctx, operations...)
	return fmt.Sprintf("%d rows, %d ports", len(operations), len(live["Logical_Switch_Port"])), err
}

// seedChassis creates the new southbound database and inserts its chassis. It reads the old database now, because
// ovn-northd has paused.
func (r *rebuild) seedChassis(ctx context.Context) (string, error) {
	schema, err := r.southboundSchema(ctx)
	if err != nil {
		return "", err
	}
	if r.oldSB != nil {
		if r.before, err = r.oldSB.Snapshot(ctx, beside.SeedTables...); err != nil {
			return "", err
		}
	}
	r.aside.sbServer, r.aside.sb, err = beside.Serve(ctx, r.Programs, r.sockets, folderOf(r.SBFile), "sb", wire.Southbound, schema)
	if err != nil {
		return "", err
	}
	operations, skipped := beside.ChassisRows(r.before, r.chassis)
	if len(skipped) > 0 {
		r.report.Notes = append(r.report.Notes,
			"chassis left out because another chassis now has their tunnel end: "+strings.Join(skipped, ", "))
	}
	if _, err := r.aside.sb.Transact(ctx, operations...); err != nil {
		return "", err
	}
	seeded, err := r.aside.sb.Snapshot(ctx, "Chassis")
	r.report.Chassis = len(seeded["Chassis"])
	if r.report.Chassis == 0 {
		err = errors.Join(err, errors.New("neither a NodeNetwork nor the old database has a chassis"))
	}
	return fmt.Sprintf("%d chassis", r.report.Chassis), err
}

// southboundSchema returns the schema of the live database, which the running ovn-northd and ovn-controllers use.
func (r *rebuild) southboundSchema(ctx context.Context) (json.RawMessage, error) {
	if r.oldSB != nil {
		return r.oldSB.Schema(ctx)
	}
	return os.ReadFile(r.SBSchema)
}

// errNorthdEnded is the cause when a computation is cancelled because our ovn-northd ended.
var errNorthdEnded = errors.New("ovn-northd ended unexpectedly")

// compute starts an ovn-northd that fills the new southbound database.
func (r *rebuild) compute(ctx context.Context) (detail string, err error) {
	ended, end := context.WithCancelCause(context.WithoutCancel(ctx))
	r.aside.northdEnded = ended
	r.aside.northd, err = beside.StartNorthd(r.Programs, r.sockets, r.aside.nbServer.Remote, r.aside.sbServer.Remote,
		func() { end(errNorthdEnded) })
	if err != nil {
		return "", err
	}
	was, err := r.northdVersion(ctx)
	if err != nil {
		return "", err
	}
	if err := r.recompute(ctx); err != nil {
		return "", r.aside.northd.Failure(err)
	}
	is, err := r.northdVersion(ctx)
	if err != nil {
		return "", err
	}
	if was != is && was != "" {
		r.report.Notes = append(r.report.Notes,
			fmt.Sprintf("the database was computed by ovn-northd %s, but the running ovn-northd is %s", is, was))
	}
	flows, err := r.aside.sb.Transact(ctx,
		wire.Operation{"op": "select", "table": "Logical_Flow", "where": wire.All, "columns": []string{"_uuid"}})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d logical flows", len(flows[0])), nil
}

// northdVersion returns the version of the ovn-northd that last worked with the copy. Before compute, this is the
// live ovn-northd.
func (r *rebuild) northdVersion(ctx context.Context) (string, error) {
	all, err := r.aside.nb.Snapshot(ctx, "NB_Global")
	if err != nil || len(all["NB_Global"]) == 0 {
		return "", err
	}
	return all["NB_Global"][0].Pairs("options")["northd_internal_version"], nil
}

// recompute returns when our ovn-northd has written everything that follows from the current databases. ovn-northd
// then copies nb_cfg to sb_cfg.
func (r *rebuild) recompute(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.aside.northdEnded, func() { cancel(context.Cause(r.aside.northdEnded)) })()
	r.aside.computed++
	_, err := r.aside.nb.Transact(ctx, wire.Update("NB_Global", wire.All, wire.Row{"nb_cfg": r.aside.computed}))
	if err != nil {
		return err
	}
	return r.awaitNumber(ctx, r.aside.nb, "NB_Global", wire.All, "sb_cfg", r.aside.computed)
}

// awaitNumber returns when a column of the selected row has reached a number.
func (r *rebuild) awaitNumber(ctx context.Context, d *wire.Database, table string, where []any, column string, least int64) error {
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	return d.AwaitNumber(ctx, table, where, column, least)
}

// seedBindings binds the ports as in the old database, and waits until ovn-northd has updated what depends on the
// bindings.
func (r *rebuild) seedBindings(ctx context.Context) (string, error) {
	fresh, err := r.aside.sb.Snapshot(ctx, "Chassis", "Datapath_Binding", "Port_Binding")
	if err != nil {
		return "", err
	}
	operations, bound := beside.Bindings(fresh, r.before, len(r.before["Chassis"]) > 0)
	macs := beside.Learned(fresh, r.before)
	if _, err := r.aside.sb.Transact(ctx, append(operations, macs...)...); err != nil {
		return "", err
	}
	if err := r.recompute(ctx); err != nil {
		return "", r.aside.northd.Failure(err)
	}
	r.aside.northd.Stop()
	r.report.Bound = bound
	// Chassis must not see the numbers that our own ovn-northd counted.
	_, err = r.aside.sb.Transact(ctx, wire.Update("SB_Global", wire.All, wire.Row{"nb_cfg": r.aside.live}))
	return fmt.Sprintf("%d of %d ports, %d learned addresses", bound, len(fresh["Port_Binding"]), len(macs)), err
}

// compareKeys returns an error if tunnel keys changed, because packets in flight would reach other ports.
func (r *rebuild) compareKeys(ctx context.Context) (string, error) {
	fresh, err := r.aside.sb.Snapshot(ctx, "Datapath_Binding", "Port_Binding")
	if err != nil {
		return "", err
	}
	changed := beside.ChangedKeys(fresh, r.before)
	if len(changed) > 0 && !r.NewKeys {
		return "", fmt.Errorf("%d tunnel keys would change, and packets would be lost until all chassis have followed "+
			"(--allow-new-keys continues anyway): %s",
			len(changed), strings.Join(changed[:min(5, len(changed))], "; "))
	}
	return fmt.Sprintf("%d keys, %d changed", len(beside.Keys(fresh)), len(changed)), nil
}

// swapSouthbound replaces the old database's file by the new one. It cannot be undone.
func (r *rebuild) swapSouthbound(ctx context.Context) (string, error) {
	made, err := r.aside.sb.Snapshot(ctx, "SB_Global", "Port_Binding")
	if err != nil {
		return "", err
	}
	file := r.aside.sbServer.File
	if err := command(ctx, r.aside.sbServer.Control, "ovsdb-server/compact"); err != nil {
		return "", err
	}
	r.aside.stop()
	if r.oldSB != nil {
		r.oldSB.Close()
	}
	live := r.southbound()
	start := time.Now()
	had, err := live.swap(ctx, file, "SB_Global", made["SB_Global"][0].UUID())
	if err != nil {
		return "", err
	}
	r.commit()
	if had {
		r.report.Previous = append(r.report.Previous, live.previous())
	}
	r.before = made // compareBindings compares with the new database
	return fmt.Sprintf("no southbound server for %d ms", time.Since(start).Milliseconds()), nil
}
