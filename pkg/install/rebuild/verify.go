package rebuild

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/weft-network/weft/pkg/ovn/wire"
)

// awaitChassis returns when ovn-northd has compared the databases and every chassis has followed. It then compares
// the bindings with those in the new database.
func (r *rebuild) awaitChassis(ctx context.Context) (string, error) {
	sb, err := wire.Dial(ctx, r.SB, wire.Southbound)
	if err != nil {
		return "", err
	}
	defer sb.Close()
	number, err := r.nextNumber(ctx)
	if err != nil {
		return "", err
	}
	if err := r.awaitNumber(ctx, r.liveNB, "NB_Global", wire.All, "sb_cfg", number); err != nil {
		return "", fmt.Errorf("ovn-northd: %w", err)
	}
	r.awaitAll(ctx, sb, number)
	if err := r.compareBindings(ctx, sb); err != nil {
		return "", err
	}
	if missing := r.missing(); len(missing) > 0 {
		return "", fmt.Errorf("chassis of live nodes do not follow: %s", strings.Join(missing, ", "))
	}
	return fmt.Sprintf("%d follow, %d ports bound", r.report.Chassis-len(r.report.Silent), r.report.Bound-len(r.report.Unbound)), nil
}

// nextNumber increments nb_cfg, so that all components show that they work: ovn-northd copies the number to the
// southbound database, and each ovn-controller copies it to its Chassis_Private when it has followed.
func (r *rebuild) nextNumber(ctx context.Context) (int64, error) {
	results, err := r.liveNB.Transact(ctx,
		wire.Operation{"op": "mutate", "table": "NB_Global", "where": wire.All, "mutations": []any{[]any{"nb_cfg", "+=", 1}}},
		wire.Select("NB_Global", wire.All))
	if err != nil {
		return 0, err
	}
	if len(results[1]) != 1 {
		return 0, errors.New("NB_Global is empty")
	}
	return results[1][0].Number("nb_cfg"), nil
}

// awaitAll waits for all chassis concurrently, so that several silent ones cost only one timeout.
func (r *rebuild) awaitAll(ctx context.Context, sb *wire.Database, number int64) {
	var group sync.WaitGroup
	var mu sync.Mutex
	private, err := sb.Snapshot(ctx, "Chassis_Private")
	if err != nil {
		r.report.Notes = append(r.report.Notes, err.Error())
	}
	for _, c := range private["Chassis_Private"] {
		name := c.Text("name")
		group.Go(func() {
			if err := r.awaitNumber(ctx, sb, "Chassis_Private", wire.Is("name", name), "nb_cfg", number); err != nil {
				mu.Lock()
				defer mu.Unlock()
				r.report.Silent = append(r.report.Silent, name)
			}
		})
	}
	group.Wait()
	slices.Sort(r.report.Silent)
}

// missing returns the silent chassis of live nodes.
func (r *rebuild) missing() []string {
	var names []string
	for _, c := range r.chassis {
		if c.Alive && slices.Contains(r.report.Silent, c.Name) {
			names = append(names, c.Name)
		}
	}
	return names
}

// compareBindings records the ports that were bound before the swap and exist, but are not bound.
func (r *rebuild) compareBindings(ctx context.Context, sb *wire.Database) error {
	now, err := sb.Snapshot(ctx, "Port_Binding")
	if err != nil {
		return err
	}
	bound := map[string]bool{} // logical port -> bound; absent if the port is gone
	for _, b := range now["Port_Binding"] {
		bound[b.Text("logical_port")] = b.Reference("chassis") != ""
	}
	for _, b := range r.before["Port_Binding"] {
		if is, there := bound[b.Text("logical_port")]; b.Reference("chassis") != "" && there && !is {
			r.report.Unbound = append(r.report.Unbound, b.Text("logical_port"))
		}
	}
	slices.Sort(r.report.Unbound)
	return nil
}
