package rebuild

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/weft-network/weft/pkg/install/beside"

	"github.com/weft-network/weft/pkg/ovn/wire"
	"github.com/weft-network/weft/pkg/unit"
)

// kept lists the northbound tables whose rows stay: the administrator's settings and the operator's fence.
var kept = []string{"Connection", "SSL", "NB_Global"}

// inspectNorthbound returns an error if a new northbound database would lose rows or cannot replace the old one.
func (r *rebuild) inspectNorthbound(ctx context.Context) error {
	d, err := wire.Dial(ctx, r.NB, wire.Northbound)
	if err != nil {
		r.report.Notes = append(r.report.Notes, fmt.Sprintf("the northbound database does not answer (%v)", err))
		return standaloneFile(r.NBFile)
	}
	defer d.Close()
	if err := errors.Join(standalone(ctx, r.NB, wire.Northbound), r.northbound().check(ctx)); err != nil {
		return err
	}
	_, all, err := readAll(ctx, d)
	if err != nil {
		return err
	}
	if lost := foreign(all); len(lost) > 0 && !r.DropForeign {
		return fmt.Errorf("%d northbound rows are not Weft's and would be lost (--drop-foreign-rows continues anyway): %s",
			len(lost), strings.Join(lost[:min(5, len(lost))], ", "))
	}
	return r.kubernetes.InSync(ctx)
}

// readAll reads a whole database and its schema.
func readAll(ctx context.Context, d *wire.Database) (json.RawMessage, wire.Snapshot, error) {
	schema, err := d.Schema(ctx)
	if err != nil {
		return nil, nil, err
	}
	names, err := wire.Tables(schema)
	if err != nil {
		return nil, nil, err
	}
	all, err := d.Snapshot(ctx, names...)
	return schema, all, err
}

// foreign lists the rows that the operator would not write again.
func foreign(all wire.Snapshot) []string {
	var found []string
	for table, rows := range all {
		if slices.Contains(kept, table) {
			continue
		}
		for _, r := range rows {
			// A table without external_ids, such as Load_Balancer_Group, cannot name the owner of a row. The UUIDs of
			// Weft's rows are derived from their names.
			if r.Pairs("external_ids")[unit.OwnerKey] == "" && r.UUID() != unit.UUID(table, r.Text("name")) {
				found = append(found, strings.TrimSuffix(table+" "+r.Text("name"), " "))
			}
		}
	}
	return found
}

// emptyNorthbound replaces the northbound database by a new one with only the rows of the kept tables. ovn-northd
// pauses meanwhile, because it would empty the southbound database.
func (r *rebuild) emptyNorthbound(ctx context.Context) (string, error) {
	schema, all, err := r.oldNorthbound(ctx)
	if err != nil {
		return "", err
	}
	s, d, err := beside.Serve(ctx, r.Programs, r.sockets, folderOf(r.NBFile), "empty", wire.Northbound, schema)
	if err != nil {
		return "", err
	}
	defer s.Stop()
	defer d.Close()
	var operations []wire.Operation
	for _, table := range kept {
		for _, row := range all[table] {
			operations = append(operations, wire.Insert(table, row.UUID(), row.Content()))
		}
	}
	if len(all["NB_Global"]) == 0 {
		operations = append(operations, wire.Insert("NB_Global", "", wire.Row{}))
	}
	if _, err := d.Transact(ctx, operations...); err != nil {
		return "", err
	}
	made, err := d.Snapshot(ctx, "NB_Global")
	if err != nil {
		return "", err
	}
	s.Stop()
	live := r.northbound()
	r.replaced[wire.Northbound] = true
	had, err := live.swap(ctx, s.File, "NB_Global", made["NB_Global"][0].UUID())
	if err != nil {
		return "", err
	}
	if had {
		r.report.Previous = append(r.report.Previous, live.previous())
		r.onFailure("restore the previous northbound database", live.restore)
	} else {
		// There is no database to restore. If ovn-northd resumed now, it would empty the southbound database.
		r.undo, r.incomplete = nil, true
	}
	rows := 0
	for _, table := range all {
		rows += len(table)
	}
	return fmt.Sprintf("%d of %d rows kept", len(operations), rows), nil
}

// oldNorthbound reads the existing database. If its server does not answer, it returns the schema file and no rows.
func (r *rebuild) oldNorthbound(ctx context.Context) (json.RawMessage, wire.Snapshot, error) {
	d, err := wire.Dial(ctx, r.NB, wire.Northbound)
	if err != nil {
		schema, err := os.ReadFile(r.NBSchema)
		return schema, wire.Snapshot{}, err
	}
	defer d.Close()
	return readAll(ctx, d)
}

// portsAtOnce is the number of ports that one transaction waits for. The server checks each of them after every
// change.
const portsAtOnce = 100

// relistInterval is how long to wait for ports before the pods are listed again.
const relistInterval = 5 * time.Second

// syncPause is the pause between two InSync calls, because the operator compares the whole database at each call.
const syncPause = time.Second

// awaitOperator returns when the operator has filled the northbound database: every pod with an address has its port,
// and the operator reports that the database is in sync.
func (r *rebuild) awaitOperator(ctx context.Context) (string, error) {
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	var err error
	if r.liveNB, err = wire.Dial(ctx, r.NB, wire.Northbound); err != nil {
		return "", err
	}
	ports, err := r.awaitPods(ctx)
	if err != nil {
		return "", err
	}
	for {
		if err = r.kubernetes.InSync(ctx); err == nil {
			r.complete()
			return fmt.Sprintf("%d ports of pods", ports), nil
		}
		select {
		case <-ctx.Done():
			return "", errors.Join(err, context.Cause(ctx))
		case <-time.After(syncPause):
		}
	}
}

// complete lets a later failure resume ovn-northd, although there is no previous northbound database to restore.
func (r *rebuild) complete() {
	if r.incomplete {
		r.incomplete = false
		r.onFailure("resume ovn-northd", func(ctx context.Context) error { _, err := r.resumeNorthd(ctx); return err })
	}
}

// awaitPods returns the number of pods with an address when all of them have a port. It lists the pods again from
// time to time, because pods may end meanwhile.
func (r *rebuild) awaitPods(ctx context.Context) (int, error) {
	for {
		ports, err := r.kubernetes.Ports(ctx)
		if err != nil {
			return 0, err
		}
		missing := false
		for chunk := range slices.Chunk(ports, portsAtOnce) {
			if err = r.awaitPorts(ctx, chunk); wire.TimedOut(err) {
				missing = true
				break
			} else if err != nil {
				return 0, err
			}
		}
		if !missing {
			return len(ports), nil
		}
	}
}

// awaitPorts returns when all the ports exist.
func (r *rebuild) awaitPorts(ctx context.Context, ports []string) error {
	var operations []wire.Operation
	for _, port := range ports {
		operations = append(operations,
			wire.Await("Logical_Switch_Port", wire.Is("name", port), "==", relistInterval.Milliseconds(), wire.Row{"name": port}))
	}
	_, err := r.liveNB.Transact(ctx, operations...)
	return err
}
