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

	"github.com/weft-network/weft/pkg/unit"
)

// kept are the northbound tables whose rows stay: the administrator's settings, and the operator's fence.
var kept = []string{"Connection", "SSL", "NB_Global"}

// lookNorthbound refuses what a new northbound database would lose.
func (r *rebuild) lookNorthbound(ctx context.Context) error {
	d, err := dial(ctx, r.NB, northbound)
	if err != nil {
		r.report.Notes = append(r.report.Notes, fmt.Sprintf("the northbound database does not answer (%v)", err))
		return standaloneFile(r.NBFile)
	}
	defer d.Close()
	if err := errors.Join(standalone(ctx, r.NB, northbound), r.northbound().check(ctx)); err != nil {
		return err
	}
	_, all, err := readAll(ctx, d)
	if err != nil {
		return err
	}
	if lost := foreign(all); len(lost) > 0 && !r.DropForeign {
		return fmt.Errorf("%d northbound rows are not Weft's and would be lost (--drop-foreign-rows goes on): %s",
			len(lost), strings.Join(lost[:min(5, len(lost))], ", "))
	}
	return r.kubernetes.InSync(ctx)
}

// readAll reads a whole database and its schema.
func readAll(ctx context.Context, d *database) (json.RawMessage, snapshot, error) {
	schema, err := d.schema(ctx)
	if err != nil {
		return nil, nil, err
	}
	names, err := tables(schema)
	if err != nil {
		return nil, nil, err
	}
	all, err := d.snapshot(ctx, names...)
	return schema, all, err
}

// foreign lists the rows that nobody would write again.
func foreign(all snapshot) []string {
	var found []string
	for table, rows := range all {
		if slices.Contains(kept, table) {
			continue
		}
		for _, r := range rows {
			// A table without external_ids, such as Load_Balancer_Group, cannot say whose a row is, but Weft's have a UUID that follows
			// from their name.
			if r.pairs("external_ids")[unit.OwnerKey] == "" && r.uuid() != unit.UUID(table, r.text("name")) {
				found = append(found, strings.TrimSuffix(table+" "+r.text("name"), " "))
			}
		}
	}
	return found
}

// emptyNorthbound puts a database in the northbound one's place that holds only what is kept. ovn-northd pauses: it would take
// everything out of the southbound one.
func (r *rebuild) emptyNorthbound(ctx context.Context) (string, error) {
	schema, all, err := r.oldNorthbound(ctx)
	if err != nil {
		return "", err
	}
	s, d, err := r.serve(ctx, folderOf(r.NBFile), "empty", northbound, schema)
	if err != nil {
		return "", err
	}
	defer s.stop()
	defer d.Close()
	var operations []operation
	for _, table := range kept {
		for _, row := range all[table] {
			operations = append(operations, insert(table, row.uuid(), row.content()))
		}
	}
	if len(all["NB_Global"]) == 0 {
		operations = append(operations, insert("NB_Global", "", row{}))
	}
	if _, err := d.transact(ctx, operations...); err != nil {
		return "", err
	}
	made, err := d.snapshot(ctx, "NB_Global")
	if err != nil {
		return "", err
	}
	s.stop()
	live := r.northbound()
	r.replaced[northbound] = true
	had, err := live.swap(ctx, s.file, "NB_Global", made["NB_Global"][0].uuid())
	if err != nil {
		return "", err
	}
	if had {
		r.report.Previous = append(r.report.Previous, live.previous())
		r.onFailure("the northbound database of before", live.restore)
	} else {
		// An ovn-northd that went on now would take everything out of the southbound database.
		r.undo, r.incomplete = nil, true
	}
	rows := 0
	for _, table := range all {
		rows += len(table)
	}
	return fmt.Sprintf("%d rows before, %d kept", rows, len(operations)), nil
}

// oldNorthbound reads what there is; nothing if the server does not answer.
func (r *rebuild) oldNorthbound(ctx context.Context) (json.RawMessage, snapshot, error) {
	d, err := dial(ctx, r.NB, northbound)
	if err != nil {
		schema, err := os.ReadFile(r.NBSchema)
		return schema, snapshot{}, err
	}
	defer d.Close()
	return readAll(ctx, d)
}

// portsAtOnce is the number of ports that one transaction waits for; the server looks at each of them after each change.
const portsAtOnce = 100

// listAgain is how long ports are waited for before the pods are listed again.
const listAgain = 5 * time.Second

// syncPause is the time between two questions whether all is as it shall be: an operator that is asked looks at everything.
const syncPause = time.Second

// awaitOperator returns when the operator has written everything again: the port of every pod that has an address, and, by its
// own words, all else.
func (r *rebuild) awaitOperator(ctx context.Context) (string, error) {
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	var err error
	if r.liveNB, err = dial(ctx, r.NB, northbound); err != nil {
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

// complete lets a failure resume ovn-northd again, though there is no northbound database of before.
func (r *rebuild) complete() {
	if r.incomplete {
		r.incomplete = false
		r.onFailure("ovn-northd resumes", func(ctx context.Context) error { _, err := r.resumeNorthd(ctx); return err })
	}
}

// awaitPods returns when every pod that has an address has its port, and how many those are. Pods may end meanwhile, so the pods are
// listed again now and then.
func (r *rebuild) awaitPods(ctx context.Context) (int, error) {
	for {
		ports, err := r.kubernetes.Ports(ctx)
		if err != nil {
			return 0, err
		}
		missing := false
		for chunk := range slices.Chunk(ports, portsAtOnce) {
			if err = r.awaitPorts(ctx, chunk); timedOut(err) {
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

// awaitPorts returns when all the ports are there.
func (r *rebuild) awaitPorts(ctx context.Context, ports []string) error {
	var operations []operation
	for _, port := range ports {
		operations = append(operations, await("Logical_Switch_Port", is("name", port), "==", listAgain.Milliseconds(), row{"name": port}))
	}
	_, err := r.liveNB.transact(ctx, operations...)
	return err
}
