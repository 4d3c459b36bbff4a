package serviceoracle

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weft-network/weft/test/isolation"
)

var (
	flagN        = flag.Int("n", 500, "number of sequences")
	flagSeed     = flag.Uint64("seed", 1, "seed of the first batch of sequences")
	flagSequence = flag.Int("sequence", 0, "number of the only sequence of a batch to run; 0: all")
)

// batch is the number of sequences that share the API server at a time, and steps is the number of steps of each.
const (
	batch = 50
	steps = 5
)

func TestMain(m *testing.M) {
	os.Exit(isolation.Run(unix.CLONE_NEWNET|unix.CLONE_NEWNS|unix.CLONE_NEWPID, func() int {
		ctrl.SetLogger(logr.Discard())
		if err := errors.Join(isolation.Furnish(), furnish()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}))
}

// TestServices compares random sequences of changes.
func TestServices(t *testing.T) {
	ctx := context.Background()
	var nodes []*corev1.Node
	for i := 1; i <= 3; i++ {
		node := &corev1.Node{}
		node.Name = fmt.Sprintf("n%d", i)
		texts := []string{fmt.Sprintf("192.0.2.%d1", i), fmt.Sprintf("2001:db8::%d1", i)}
		if i == 1 {
			texts = append(texts, ownAddresses[2].String())
		}
		for _, text := range texts {
			node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: text})
		}
		nodes = append(nodes, node)
	}
	c, err := startCluster(ctx, nodes)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.stop(); err != nil {
			t.Error(err)
		}
	}()
	w := &world{cluster: c}
	for _, node := range nodes {
		w.nodes = append(w.nodes, *node)
	}
	tally := newTally()
	for _, one := range recorded {
		if *flagSequence != 0 {
			break
		}
		if err := w.runBatch(ctx, one.seed, one.number, one.number, tally); err != nil {
			t.Fatalf("seed %d, sequence %d: %v", one.seed, one.number, err)
		}
	}
	for done, seed := 0, *flagSeed; done < *flagN; done, seed = done+batch, seed+1 {
		if err := w.runBatch(ctx, seed, min(batch, *flagN-done), *flagSequence, tally); err != nil {
			log, _ := os.ReadFile(c.log)
			t.Fatalf("seed %d: %v\n%s", seed, err, log[max(0, len(log)-4000):])
		}
	}
	tally.report(t)
	if *flagSequence == 0 {
		w.findsPlanted(ctx, t)
	}
}

// enough is the number of sequences in which each known fault occurs.
const enough = 500

func (t *tally) report(tb testing.TB) {
	tb.Helper()
	tb.Logf("%d answers compared, of which kube-proxy serves %d; %d health checks; the API server refused %d random objects; %+v",
		t.compared, t.served, t.checked, t.rejected, clock)
	for name, n := range t.explained {
		tb.Logf("%d × %s: e.g. %v", n, name, t.examples[name])
	}
	if *flagN >= enough && *flagSeed == 1 && *flagSequence == 0 {
		for _, rule := range known {
			if t.explained[rule.name] == 0 {
				tb.Errorf("%q no longer occurs: remove it from the known faults", rule.name)
			}
		}
	}
	for kind, d := range t.unknown {
		tb.Errorf("%d × %s, which no rule explains: e.g. %v", t.unknowns[kind], kind, d)
	}
}

// findsPlanted fails the test unless the oracle finds each of the planted bugs.
func (w *world) findsPlanted(ctx context.Context, t *testing.T) {
	for name, plant := range bugs {
		w.plant = plant
		tally := newTally()
		if err := w.runBatch(ctx, 1, 10, 0, tally); err != nil {
			t.Fatal(err)
		}
		if len(tally.unknown) == 0 {
			t.Errorf("the planted bug %q was not found", name)
		}
	}
}

// clock sums up where the time goes.
var clock struct{ write, sync, render, compare time.Duration }

func (w *world) runBatch(ctx context.Context, seed uint64, n, only int, tally *tally) error {
	if err := w.begin(ctx, seed, n, only); err != nil {
		return err
	}
	for step := range steps {
		begin := time.Now()
		if err := errors.Join(w.zones(ctx, step), w.each(func(s *sequence) error { return s.step(ctx, w.api, step == 0) })); err != nil {
			return err
		}
		clock.write += time.Since(begin)
		begin = time.Now()
		kube, err := w.sync(ctx)
		if err != nil {
			return err
		}
		clock.sync += time.Since(begin)
		begin = time.Now()
		o, err := w.read(ctx)
		if err != nil {
			return err
		}
		var ours []weft
		for _, m := range modes {
			one, err := w.apply(ctx, o, m, tally)
			if err != nil {
				return err
			}
			ours = append(ours, one)
		}
		clock.render += time.Since(begin)
		begin = time.Now()
		w.compare(o, kube, ours, step, tally)
		checks := healthChecks(o) // after apply, because the former table may translate a port that is reused
		if err := compareHealth(ctx, checks); err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		tally.checked += len(checks)
		clock.compare += time.Since(begin)
	}
	return w.end(ctx)
}
