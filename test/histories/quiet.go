package histories

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/unit"
)

// wrong returns an error for everything that is not as it must be now.
func (w *world) wrong(ctx context.Context) error {
	w.unpin()
	o, err := w.read(ctx)
	if err != nil {
		return err
	}
	if err := w.everywhere(func(w *world) error { return w.wrongAt(ctx, o) }); err != nil {
		return err
	}
	return w.checkApart()
}

// unpin expects no address of a pod that reported while its node was moving: an operator that had not seen the report may have given the
// address to another pod.
func (w *world) unpin() {
	for uid, node := range w.recent {
		if len(w.sites) > 1 && w.observer.isMoving(node) {
			w.unpinned[uid] = true
		}
	}
}

// wrongAt returns an error for everything that is not as it must be in one database.
func (w *world) wrongAt(ctx context.Context, o *objects) error {
	rows, up := w.mirror.snapshot()
	if !up {
		return errors.New("the database is not running")
	}
	judge := w.judge(o, rows)
	units, err := judge.expect()
	if err != nil {
		return err
	}
	if err := w.compare(rows, expectRows(units, rows), judge.kept()); err != nil {
		return err
	}
	judge.checkReports()
	if err := errors.Join(judge.wrong...); err != nil {
		return err
	}
	return w.checkInvariants(ctx, len(judge.frozen) > 0)
}

// judge returns an oracle for objects and rows.
func (w *world) judge(o *objects, rows database) *oracle {
	return &oracle{objects: o, zone: w.cluster.zone, rows: rows, unpinned: w.unpinned, addressed: w.addressed, reached: w.reached,
		overlaid: w.overlaid, everSelected: w.everSelected,
		floats: floats{api: w.api}}
}

// quiet ends all faults, waits until the database is correct, and then until no pending work can change it any more.
func (w *world) quiet(ctx context.Context) error {
	if err := w.calm(ctx); err != nil {
		return err
	}
	if err := w.converge(ctx, w.wrong); err != nil {
		return fmt.Errorf("after the end of all faults: %w", err)
	}
	clear(w.recent)
	for _, s := range w.sites {
		s.emptied = false
	}
	w.observer.settle()
	if err := w.marked(ctx); err != nil {
		return err
	}
	w.still()
	if err := w.converge(ctx, w.wrong); err != nil {
		return err
	}
	return w.everywhere((*world).checkDrift)
}

// checkDrift checks that no difference counts as foreign in a history without foreign writes.
func (w *world) checkDrift() error {
	if report := w.lead.engine.Drifts(); !w.strangers && report.Total > 0 {
		return fmt.Errorf("%d differences count as foreign, but there was no foreign write: the last is %+v",
			report.Total, report.Latest[0])
	}
	return nil
}

// still returns when there was no write for a moment, or after a timeout: a new process will then detect later
// writes.
func (w *world) still() {
	last, since := w.writes(), time.Now()
	_ = until(w.news, patience, func(context.Context) error {
		if n := w.writes(); n != last {
			last, since = n, time.Now()
		}
		if time.Since(since) < stillness {
			return errors.New("a process still writes")
		}
		return nil
	})
}

// writes counts the writes of the leaders and of the extenders to the API server.
func (w *world) writes() (n int) {
	for _, s := range w.sites {
		n += s.lead.link.count()
	}
	for _, e := range w.schedulers {
		n += e.link.count()
	}
	return n
}

// stillness is how long there must be no write.
const stillness = 150 * time.Millisecond

// calm delivers what was held back, and makes all actors finish their work.
func (w *world) calm(ctx context.Context) error {
	w.note("quiet")
	if err := w.everywhere(func(w *world) error { return w.revive(ctx) }); err != nil {
		return err
	}
	w.peace()
	return errors.Join(w.createNetwork(ctx), w.collect(ctx))
}

// revive makes the database and its leader run, and ends previous leaders.
func (w *world) revive(ctx context.Context) error {
	w.stale = 0
	if err := errors.Join(w.runServer(), w.replace()); err != nil {
		return err
	}
	return errors.Join(w.supervise(ctx), w.wake(ctx), w.supervise(ctx))
}

// peace ends the faults of the present leaders.
func (w *world) peace() {
	for _, s := range w.sites {
		s.lead.link.faults.disarm()
		s.lead.wire.faults.disarm()
		s.deliver()
		s.lateFor = 0
	}
	for _, e := range w.schedulers {
		e.link.faults.disarm()
		e.deliver()
	}
}

// deliver releases the events held back from the present leader.
func (s *site) deliver() {
	s.lead.wire.rows.set(false)
	for _, resource := range all {
		s.lead.link.gate(resource).set(false)
	}
}

// converge waits until wrong returns nil. Meanwhile crashed processes restart, agents report and the garbage
// collector and a scheduler run.
func (w *world) converge(ctx context.Context, wrong func(context.Context) error) error {
	return until(w.news, patience, func(ctx context.Context) error {
		if err := w.superviseAll(ctx); err != nil {
			return err
		}
		if err := errors.Join(w.agents(ctx), w.collect(ctx), w.placeAll(ctx), w.operands(ctx)); err != nil {
			return err
		}
		return wrong(ctx)
	})
}

// errReplaced means that another process leads than before.
var errReplaced = errors.New("a leader was replaced")

// superviseAll supervises the leader of each database. If one was replaced or hangs, it ends the faults of all and fails.
func (w *world) superviseAll(ctx context.Context) error {
	return w.everywhere(func(w *world) error {
		before := w.lead
		if err := w.supervise(ctx); err != nil {
			return err
		}
		if w.lead != before || w.lead.wire.isHeld() || len(w.zombies) > 0 { // a leader may have hung since the last check
			w.peace()
			return errors.Join(errReplaced, w.wake(ctx))
		}
		return nil
	})
}

// agents makes all agents report that have not reported.
func (w *world) agents(ctx context.Context) error {
	var networks networkv1alpha1.NodeNetworkList
	if err := w.api.List(ctx, &networks); err != nil {
		return err
	}
	for i := range networks.Items {
		if nn := &networks.Items[i]; nn.Status.Chassis == "" && !w.muted[nn.Name] {
			if err := w.report(ctx, Step{Name: nn.Name}); err != nil {
				return err
			}
		}
	}
	return nil
}

// marked makes a change to the ClusterNetwork that affects only its status. When the status follows, the controller
// has processed all earlier events.
func (w *world) marked(ctx context.Context) error {
	w.marker++
	err := w.changeNetwork(ctx, func(cn *networkv1alpha1.ClusterNetwork) { cn.Spec.Gateway.Overrides = marking(w.marker) })
	if err != nil {
		return err
	}
	return w.converge(ctx, func(ctx context.Context) error {
		cn := &networkv1alpha1.ClusterNetwork{}
		if err := w.api.Get(ctx, types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, cn); err != nil {
			return err
		}
		if cn.Status.ObservedGeneration != cn.Generation {
			return errors.New("the ClusterNetwork's status does not follow its spec")
		}
		return w.wrong(ctx)
	})
}

// marking is an override that matches no node.
func marking(n int) []networkv1alpha1.GatewayOverride {
	return []networkv1alpha1.GatewayOverride{
		{NodeSelector: metav1.LabelSelector{MatchLabels: map[string]string{"marker": strconv.Itoa(n)}}}}
}

// restarted restarts the operator in a correct state. It must write nothing but the epoch, and the status that
// follows a marking change. The next process may write what its predecessor had not yet written to the API server.
// The third process has nothing left to write.
func (w *world) restarted(ctx context.Context) error {
	for n := 1; ; n++ {
		commits, writes, err := w.restart(ctx)
		if err != nil {
			return err
		}
		if len(commits) > 0 {
			return fmt.Errorf("%d transactions were written to the database:\n%s", len(commits), strings.Join(commits, "\n"))
		}
		isAnswer := func(write string) bool {
			return strings.HasPrefix(write, "PATCH /apis/network.weft.dev/v1alpha1/clusternetworks/default/status ")
		}
		others := slices.DeleteFunc(slices.Clone(writes), isAnswer)
		// Each process reports a foreign row with the name of a Weft row.
		if len(others) == 0 && (len(writes) == 1 || w.foreign.hasNamesake() || w.lostSwitch()) {
			return w.restartedExtenders(ctx)
		}
		if n == 3 {
			return fmt.Errorf("the API server was written to: %q", writes)
		}
	}
}

// restart restarts the operator and returns its writes until it was idle.
func (w *world) restart(ctx context.Context) (commits, writes []string, err error) {
	w.note("restart")
	if err := w.everywhere((*world).startAgain); err != nil {
		return nil, nil, err
	}
	if err := w.converge(ctx, w.unwanted); err != nil {
		return nil, nil, err
	}
	err = errors.Join(w.everywhere(func(w *world) error { return w.lead.settle(ctx) }), w.marked(ctx))
	if err != nil {
		return nil, nil, err
	}
	w.still()
	for _, s := range w.sites {
		commits, writes = append(commits, s.lead.wire.committed()...), append(writes, s.lead.link.written()...)
	}
	return commits, writes, nil
}

// startAgain ends the leader in order, and starts the next process.
func (w *world) startAgain() error {
	if err := w.lead.stop(); err != nil {
		return err
	}
	w.lead.kill()
	return w.start()
}

// unwanted names a unit that an engine does not have yet.
func (w *world) unwanted(ctx context.Context) error {
	o, err := w.read(ctx)
	if err != nil {
		return err
	}
	return w.everywhere(func(w *world) error { return w.unwantedAt(o) })
}

func (w *world) unwantedAt(o *objects) error {
	rows, _ := w.mirror.snapshot()
	units, err := w.judge(o, rows).expect()
	if err != nil {
		return err
	}
	if !w.lead.engine.Connected() {
		return errors.New("the database is not connected")
	}
	for _, u := range units {
		if !u.Empty() && !w.lead.engine.Wanted(u.Key) && !w.isMute(u) {
			return fmt.Errorf("unit %s was not compared", u.Key)
		}
	}
	return nil
}

// isMute reports whether a unit keeps its state because its node's agent has not reported.
func (w *world) isMute(unit.Unit) bool { return len(w.muted) > 0 }
