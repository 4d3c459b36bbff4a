package rebuild

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// aside holds the new databases and the processes that run beside the live databases.
type aside struct {
	nbServer, sbServer *server
	northd             *process
	northdEnded        context.Context
	nb, sb             *database
	computed           int64 // nb_cfg of the copied northbound database
	live               int64 // nb_cfg of the live northbound database when it was copied
}

// stop closes the connections and stops all processes. It may be called again.
func (a *aside) stop() {
	for _, d := range []*database{a.nb, a.sb} {
		if d != nil {
			d.Close()
		}
	}
	if a.northd != nil {
		a.northd.stop()
	}
	for _, s := range []*server{a.nbServer, a.sbServer} {
		if s != nil {
			s.stop()
		}
	}
}

// serve creates a database from a schema in a folder and serves it.
func (r *rebuild) serve(ctx context.Context, folder, name, database string, schema json.RawMessage) (*server, *database, error) {
	file := filepath.Join(folder, name+".ovsschema")
	if err := os.WriteFile(file, schema, 0o600); err != nil {
		return nil, nil, err
	}
	s, err := startServer(ctx, r.Programs, r.sockets, name, filepath.Join(folder, name+".db"), file)
	if err != nil {
		return nil, nil, err
	}
	d, err := dial(ctx, s.remote, database)
	if err != nil {
		s.stop()
	}
	return s, d, err
}

// copyNorthbound copies all rows of the live northbound database, UUIDs included.
func (r *rebuild) copyNorthbound(ctx context.Context) (string, error) {
	schema, err := r.liveNB.schema(ctx)
	if err != nil {
		return "", err
	}
	names, err := tables(schema)
	if err != nil {
		return "", err
	}
	live, err := r.liveNB.snapshot(ctx, names...)
	if err != nil {
		return "", err
	}
	if len(live["Logical_Switch"]) == 0 {
		return "", errors.New("the northbound database is empty; use --nb to rebuild a lost northbound database")
	}
	if r.aside.nbServer, r.aside.nb, err = r.serve(ctx, folderOf(r.SBFile), "nb", northbound, schema); err != nil {
		return "", err
	}
	var operations []operation
	for _, table := range names {
		for _, row := range live[table] {
			operations = append(operations, insert(table, row.uuid(), row.content()))
		}
	}
	if len(live["NB_Global"]) > 0 {
		r.aside.live = live["NB_Global"][0].number("nb_cfg")
	}
	r.aside.computed = r.aside.live
	_, err = r.aside.nb.transact(ctx, operations...)
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
		if r.before, err = r.oldSB.snapshot(ctx, seedTables...); err != nil {
			return "", err
		}
	}
	if r.aside.sbServer, r.aside.sb, err = r.serve(ctx, folderOf(r.SBFile), "sb", southbound, schema); err != nil {
		return "", err
	}
	operations, skipped := chassisRows(r.before, r.chassis)
	if len(skipped) > 0 {
		r.report.Notes = append(r.report.Notes,
			"chassis left out because another chassis now has their tunnel end: "+strings.Join(skipped, ", "))
	}
	if _, err := r.aside.sb.transact(ctx, operations...); err != nil {
		return "", err
	}
	seeded, err := r.aside.sb.snapshot(ctx, "Chassis")
	r.report.Chassis = len(seeded["Chassis"])
	if r.report.Chassis == 0 {
		err = errors.Join(err, errors.New("neither a NodeNetwork nor the old database has a chassis"))
	}
	return fmt.Sprintf("%d chassis", r.report.Chassis), err
}

// southboundSchema returns the schema of the live database, which the running ovn-northd and ovn-controllers use.
func (r *rebuild) southboundSchema(ctx context.Context) (json.RawMessage, error) {
	if r.oldSB != nil {
		return r.oldSB.schema(ctx)
	}
	return os.ReadFile(r.SBSchema)
}

// errNorthdEnded is the cause when a computation is cancelled because our ovn-northd ended.
var errNorthdEnded = errors.New("ovn-northd ended unexpectedly")

// compute starts an ovn-northd that fills the new southbound database.
func (r *rebuild) compute(ctx context.Context) (detail string, err error) {
	ended, end := context.WithCancelCause(context.WithoutCancel(ctx))
	r.aside.northdEnded = ended
	r.aside.northd, err = startNorthd(r.Programs, r.sockets, r.aside.nbServer.remote, r.aside.sbServer.remote,
		func() { end(errNorthdEnded) })
	if err != nil {
		return "", err
	}
	was, err := r.northdVersion(ctx)
	if err != nil {
		return "", err
	}
	if err := r.recompute(ctx); err != nil {
		return "", r.aside.northd.failure(err)
	}
	is, err := r.northdVersion(ctx)
	if err != nil {
		return "", err
	}
	if was != is && was != "" {
		r.report.Notes = append(r.report.Notes,
			fmt.Sprintf("the database was computed by ovn-northd %s, but the running ovn-northd is %s", is, was))
	}
	flows, err := r.aside.sb.transact(ctx,
		operation{"op": "select", "table": "Logical_Flow", "where": all, "columns": []string{"_uuid"}})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d logical flows", len(flows[0])), nil
}

// northdVersion returns the version of the ovn-northd that last worked with the copy. Before compute, this is the
// live ovn-northd.
func (r *rebuild) northdVersion(ctx context.Context) (string, error) {
	all, err := r.aside.nb.snapshot(ctx, "NB_Global")
	if err != nil || len(all["NB_Global"]) == 0 {
		return "", err
	}
	return all["NB_Global"][0].pairs("options")["northd_internal_version"], nil
}

// recompute returns when our ovn-northd has written everything that follows from the current databases. ovn-northd
// then copies nb_cfg to sb_cfg.
func (r *rebuild) recompute(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.aside.northdEnded, func() { cancel(context.Cause(r.aside.northdEnded)) })()
	r.aside.computed++
	_, err := r.aside.nb.transact(ctx, update("NB_Global", all, row{"nb_cfg": r.aside.computed}))
	if err != nil {
		return err
	}
	return r.awaitNumber(ctx, r.aside.nb, "NB_Global", all, "sb_cfg", r.aside.computed)
}

// awaitNumber returns when a column of the selected row has reached a number. It waits by wait operations, which the
// server ends when the column changes.
func (r *rebuild) awaitNumber(ctx context.Context, d *database, table string, where []any, column string, least int64) error {
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	for {
		results, err := d.transact(ctx, selectRows(table, where))
		if err != nil {
			return err
		}
		if len(results[0]) != 1 {
			return fmt.Errorf("database %s: table %s has %d matching rows, want 1", d.name, table, len(results[0]))
		}
		have := results[0][0].number(column)
		if have >= least {
			return nil
		}
		if _, err := d.transact(ctx, await(table, where, "!=", time.Hour.Milliseconds(), row{column: have})); err != nil {
			return fmt.Errorf("%s is %d, want %d: %w", column, have, least, err)
		}
	}
}

// seedBindings binds the ports as in the old database, and waits until ovn-northd has updated what depends on the
// bindings.
func (r *rebuild) seedBindings(ctx context.Context) (string, error) {
	fresh, err := r.aside.sb.snapshot(ctx, "Chassis", "Datapath_Binding", "Port_Binding")
	if err != nil {
		return "", err
	}
	operations, bound := bindings(fresh, r.before, len(r.before["Chassis"]) > 0)
	macs := learned(fresh, r.before)
	if _, err := r.aside.sb.transact(ctx, append(operations, macs...)...); err != nil {
		return "", err
	}
	if err := r.recompute(ctx); err != nil {
		return "", r.aside.northd.failure(err)
	}
	r.aside.northd.stop()
	r.report.Bound = bound
	// Chassis must not see the numbers that our own ovn-northd counted.
	_, err = r.aside.sb.transact(ctx, update("SB_Global", all, row{"nb_cfg": r.aside.live}))
	return fmt.Sprintf("%d of %d ports, %d learned addresses", bound, len(fresh["Port_Binding"]), len(macs)), err
}

// compareKeys returns an error if tunnel keys changed, because packets in flight would reach other ports.
func (r *rebuild) compareKeys(ctx context.Context) (string, error) {
	fresh, err := r.aside.sb.snapshot(ctx, "Datapath_Binding", "Port_Binding")
	if err != nil {
		return "", err
	}
	changed := changedKeys(fresh, r.before)
	if len(changed) > 0 && !r.NewKeys {
		return "", fmt.Errorf("%d tunnel keys would change, and packets would be lost until all chassis have followed "+
			"(--allow-new-keys continues anyway): %s",
			len(changed), strings.Join(changed[:min(5, len(changed))], "; "))
	}
	return fmt.Sprintf("%d keys, %d changed", len(keys(fresh)), len(changed)), nil
}

// swapSouthbound replaces the old database's file by the new one. It cannot be undone.
func (r *rebuild) swapSouthbound(ctx context.Context) (string, error) {
	made, err := r.aside.sb.snapshot(ctx, "SB_Global", "Port_Binding")
	if err != nil {
		return "", err
	}
	file := r.aside.sbServer.file
	if err := command(ctx, r.aside.sbServer.control, "ovsdb-server/compact"); err != nil {
		return "", err
	}
	r.aside.stop()
	if r.oldSB != nil {
		r.oldSB.Close()
	}
	live := r.southbound()
	start := time.Now()
	had, err := live.swap(ctx, file, "SB_Global", made["SB_Global"][0].uuid())
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
