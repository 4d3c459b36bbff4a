package histories

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/test/histories/apiserver"
	"github.com/weft-network/weft/test/poll"
)

// world is a running history, seen from one of its databases.
type world struct {
	*history
	*site
}

// history is what all databases of a history share.
type history struct {
	plan  Plan
	api   client.Client
	news  *poll.Changes
	sites []*site // of the default zone, then of its zone

	muted    map[string]bool                       // nodes whose agent does not report
	recent   map[string]string                     // UIDs of pods that reported since the last quiet moment -> their nodes
	chassis  map[string]string                     // node -> what its agent reports next
	unpinned map[string]bool                       // UIDs of pods that may get other addresses than they reported
	entries  []networkv1alpha1.ClusterNetworkEntry // of the ClusterNetwork; nil before the first
	marker   int
	// attachments are what ports of pods on a Network had when the scenario began.
	attachments  map[string]string
	addressed    map[types.UID][]string // IPAMClaims' addresses at the previous check
	reached      map[string]bool        // nodes that ever reported a connection with a segment
	overlaid     map[string]bool        // Networks that ever had a topology other than Localnet
	everSelected map[string]bool        // "NETWORK/NAMESPACE" of Networks that ever selected a namespace
	observer     *observer
	schedulers   map[string]*extenderProcess // the present extenders, by scheduler
	extenders    []*extenderProcess          // all that ever ran
	// staleExtender is the age in revisions of the next extender's first lists.
	staleExtender int64
	zones         []networkv1alpha1.Zone // of the ClusterNetwork
	zoneDown      bool                   // the zone's workloads are not ready
	trace         []string
}

// site is a database with its operators.
type site struct {
	cluster *cluster
	server  *ovndbtest.Server
	mirror  *mirror

	lead    *operator   // nil without a leader
	zombies []*operator // previous leaders with a commit still in transit
	all     []*operator
	stale   int64 // age in revisions of the next process's first lists
	// lag is the age in revisions of the next process's first list of some resources. The watch shows nothing later until deliver.
	lag map[string]int64

	serverUp  bool
	downFor   int // steps until the killed server restarts
	lateFor   int // steps until late rows are delivered
	awayFor   int // steps until the killed process is replaced
	foreign   foreignRows
	disowned  map[string]bool // rows from which a vandal removed Weft's owner
	strangers bool            // there were foreign writes, or the database lost its rows
	emptied   bool            // the database lost its rows since the last quiet moment
	overtaken bool            // a previous leader was resumed: it may have taken the epoch again before it ended
}

// newWorld starts a database, and an API server in memory unless real is set.
func newWorld(t testing.TB, plan Plan, real *rest.Config) (*world, error) {
	dir, err := os.MkdirTemp("", "weft-history-")
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	h := &history{plan: plan, news: &poll.Changes{}, muted: map[string]bool{}, recent: map[string]string{}, chassis: map[string]string{},
		unpinned: map[string]bool{}, addressed: map[types.UID][]string{}, reached: map[string]bool{}, overlaid: map[string]bool{},
		everSelected: map[string]bool{},
		schedulers:   map[string]*extenderProcess{}}
	c := &cluster{config: real, mapper: newMapper(), dir: dir}
	var memory *apiserver.Server
	if real == nil {
		memory = apiserver.New(plan.Seed, h.news.Notify)
		c.config, c.transport = &rest.Config{Host: "http://memory"}, memory
	}
	h.observer = newObserver(memory)
	if h.api, err = newClient(c); err != nil {
		return nil, err
	}
	zones := []kind.Zone{""}
	if plan.Zones {
		zones = append(zones, theZone)
	}
	for _, zone := range zones {
		s, err := newSite(t, c, zone, mirrorOf(zone, h))
		if err != nil {
			return nil, err
		}
		h.sites = append(h.sites, s)
	}
	w := h.at("")
	t.Cleanup(w.close)
	return w, w.prepare(context.Background())
}

// mirrorOf returns the mirror of a zone's database. Zones have no floating addresses, which the observer watches.
func mirrorOf(zone kind.Zone, h *history) *mirror {
	if zone.Follows() {
		return newMirror(h.news.Notify, nil)
	}
	return newMirror(h.news.Notify, h.observer.seeRows)
}

// newSite starts a zone's database.
func newSite(t testing.TB, c *cluster, zone kind.Zone, m *mirror) (*site, error) {
	s := &site{server: ovndbtest.Start(t, "ovn-nb"), mirror: m, serverUp: true, foreign: foreignRows{}, disowned: map[string]bool{}}
	own := *c
	own.zone, own.database = zone, strings.TrimPrefix(s.server.Endpoint(), "unix:")
	s.cluster = &own
	return s, m.connect(own.database)
}

// at returns the history as seen from a zone's database, or from the first database in a history without the zone.
func (h *history) at(zone kind.Zone) *world {
	for _, s := range h.sites {
		if s.cluster.zone == zone {
			return &world{h, s}
		}
	}
	return &world{h, h.sites[0]}
}

// everywhere calls f for each database.
func (h *history) everywhere(f func(*world) error) error {
	for _, s := range h.sites {
		if err := f(&world{h, s}); err != nil {
			if len(h.sites) > 1 {
				err = fmt.Errorf("zone %q: %w", s.cluster.zone, err)
			}
			return err
		}
	}
	return nil
}

// prepare creates the objects that every cluster has.
func (w *world) prepare(ctx context.Context) error {
	for _, name := range []string{"kube-system", "a", "b"} {
		err := w.api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		if err := ignoreExists(err); err != nil {
			return err
		}
	}
	return nil
}

// close ends all processes.
func (w *world) close() {
	var operators []*operator
	for _, s := range w.sites {
		s.mirror.close()
		operators = append(operators, s.all...)
	}
	for _, o := range operators {
		o.kill()
	}
	for _, e := range w.extenders {
		e.kill()
	}
	for _, e := range w.extenders {
		_ = e.end() // run has reported a hanging process
	}
	for _, o := range operators {
		_ = o.end() // run has reported a hanging process
		o.wire.ended.Wait()
	}
}

// run executes the plan. The error describes the first violation.
func (w *world) run(ctx context.Context) error {
	for i, step := range w.plan.Steps {
		w.note("step %d: %+v", i, step)
		if err := w.everywhere(func(w *world) error { return errors.Join(w.tick(), w.supervise(ctx)) }); err != nil {
			return fmt.Errorf("before step %d %+v: %w", i, step, err)
		}
		if err := w.at(step.Zone).do(ctx, step); err != nil {
			return fmt.Errorf("step %d %+v: %w", i, step, err)
		}
		if err := w.observer.err(); err != nil {
			return fmt.Errorf("at step %d %+v: %w", i, step, err)
		}
	}
	if err := w.quiet(ctx); err != nil {
		return err
	}
	if err := w.restarted(ctx); err != nil {
		return fmt.Errorf("after an unchanged restart: %w", err)
	}
	if err := w.everywhere((*world).predecessorsEnded); err != nil {
		return err
	}
	for _, e := range w.extenders {
		e.kill()
		if err := e.end(); err != nil {
			return err
		}
	}
	return w.observer.err()
}

// predecessorsEnded waits until all processes but the leader have ended.
func (w *world) predecessorsEnded() error {
	for _, o := range w.all {
		if o != w.lead {
			if err := o.end(); err != nil {
				return err
			}
		}
	}
	return nil
}

// note records an action for the analysis of a failure.
func (h *history) note(format string, args ...any) {
	h.trace = append(h.trace, time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
}

// tick ends faults that last for some steps.
func (w *world) tick() error {
	if w.lateFor > 0 {
		if w.lateFor--; w.lateFor == 0 && w.lead != nil {
			w.lead.wire.rows.set(false)
		}
	}
	if !w.serverUp {
		if w.downFor--; w.downFor <= 0 {
			if err := w.runServer(); err != nil {
				return err
			}
		}
	}
	if w.awayFor > 1 {
		w.awayFor--
		return nil
	}
	return w.replace()
}

// replace starts a process after a step that killed the leader for some steps.
func (w *world) replace() error {
	if w.awayFor == 0 {
		return nil
	}
	w.awayFor = 0
	return w.start()
}

// supervise starts a process if none runs, as its Deployment would.
func (w *world) supervise(context.Context) error {
	switch {
	case w.awayFor > 0:
		return nil
	case w.lead == nil:
	case w.lead.hasCrashed():
		w.note("the leader crashed")
		w.lead.kill()
	case w.lead.wire.isHeld():
		w.note("the leader hangs")
		w.lead.pause(true)
		w.zombies = append(w.zombies, w.lead)
	case w.lead.hasEnded():
		fenced := w.overtaken && errors.Is(w.lead.err, ovndb.ErrFenced)
		if !fenced && !errors.Is(w.lead.err, ovndb.ErrBlind) {
			return fmt.Errorf("the process ended: %w", w.lead.err)
		}
		w.note("the leader ended: %v", w.lead.err)
		w.lead.kill()
	default:
		return nil
	}
	return w.start()
}

func (w *world) start() (err error) {
	w.lead, err = startOperator(w.cluster, fmt.Sprintf("op%s%d", w.cluster.zone, len(w.all)), w.stale, w.lag, w.news.Notify)
	w.stale, w.lag = 0, nil
	if err == nil {
		w.note("process %s%d starts", w.cluster.zone, len(w.all))
		w.all = append(w.all, w.lead)
	}
	return err
}

// wake resumes the previous leaders. By then another process leads, so their delayed writes must fail. Then they
// find that they have lost the lease, and end.
func (w *world) wake(ctx context.Context) error {
	for len(w.zombies) > 0 {
		zombie := w.zombies[0]
		w.zombies = w.zombies[1:]
		if err := w.awaitLeader(ctx); err != nil {
			return err
		}
		w.overtaken = true
		zombie.pause(false)
		if decided, committed := zombie.wire.decision(ctx); decided && committed {
			return errors.New("a previous leader's commit took effect after another process had taken over")
		}
		zombie.cancel()
		if err := zombie.end(); err != nil {
			return fmt.Errorf("previous leader: %w", err)
		}
		zombie.kill()
		// It was cut off while it hung: on a slow machine for so long that it ended by itself.
		if err := zombie.outcome(); err != nil && !errors.Is(err, ovndb.ErrFenced) && !errors.Is(err, ovndb.ErrBlind) {
			return fmt.Errorf("previous leader: %w", err)
		}
	}
	return nil
}

// awaitLeader waits until the present process holds the epoch.
func (w *world) awaitLeader(ctx context.Context) error {
	if err := errors.Join(w.runServer(), w.replace()); err != nil {
		return err
	}
	err := until(w.news, patience, func(context.Context) error {
		if err := w.supervise(ctx); err != nil {
			return err
		}
		w.deliver() // a process starts when it has read all objects, and leads when it has read all rows
		if !w.lead.engine.Connected() {
			return errors.Join(errors.New("the new leader is not connected"), w.lead.engine.Failure())
		}
		return nil
	})
	if err != nil {
		err = fmt.Errorf("%w; the goroutines are in %s", err, stacks())
	}
	return err
}

// runServer starts the database server unless it runs.
func (w *world) runServer() error {
	if w.serverUp {
		return nil
	}
	w.server.Run()
	w.serverUp = true
	return w.mirror.connect(w.cluster.database)
}

func (w *world) killServer() {
	w.mirror.close()
	w.server.Kill()
	w.serverUp = false
}
