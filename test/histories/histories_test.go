package histories

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

var (
	count     = flag.Int("n", 24, "number of histories")
	first     = flag.Uint64("seed", 1, "seed of the first history; each further history has the next seed")
	replay    = flag.String("history", "", "repeat one history: a seed, or the file of a failed history")
	parallel  = flag.Int("histories", 8, "histories run in parallel")
	shrinking = flag.Duration("shrink", 3*time.Minute, "time limit for shrinking a failed history")
	rare      = flag.Int("rare", 1, "number of histories that may fail once if they pass three repetitions; they are logged")
	zones     = flag.Bool("zones", false, "divide the cluster: a zone has a database and an operator of its own")
	keep      = flag.String("keep", "", "folder for the files of failed histories; empty: a temporary folder")
)

func TestMain(m *testing.M) {
	flag.Parse()
	zoned = *zones
	log := logr.Discard()
	if *replay != "" {
		log = zap.New(zap.UseDevMode(true))
	}
	ctrl.SetLogger(log)
	os.Exit(m.Run())
}

// gained counts the floating addresses that ports got in all attempts.
var gained atomic.Int64

// attempt runs a plan once, with its own servers.
func attempt(t *testing.T, name string, p Plan) (trace []string, err error) {
	t.Run(name, func(t *testing.T) {
		var w *world
		if w, err = newWorld(t, p, nil); err == nil {
			err, trace = w.run(context.Background()), w.trace
			gained.Add(int64(w.observer.count()))
		}
	})
	return trace, err
}

// TestHistories checks that after any history the database matches the API server's objects.
func TestHistories(t *testing.T) {
	if *replay != "" {
		replayed(t)
		return
	}
	seeds := make(chan uint64)
	var passed, seldom atomic.Int64
	var workers sync.WaitGroup
	started := time.Now()
	for range *parallel {
		workers.Go(func() {
			for seed := range seeds {
				if check(t, generate(seed), &seldom) {
					passed.Add(1)
				}
			}
		})
	}
	for i := range *count {
		if t.Failed() {
			break // one failure is enough to examine
		}
		seeds <- *first + uint64(i)
	}
	close(seeds)
	workers.Wait()
	t.Logf("%d histories passed in %s; %d failed once and not again; ports got a floating address %d times", passed.Load(),
		time.Since(started).Round(time.Second), seldom.Load(), gained.Load())
}

// TestRecordedHistories repeats every history that ever found a bug. Some found it only in some of the runs.
func TestRecordedHistories(t *testing.T) {
	paths, _ := filepath.Glob("testdata/*.json")
	if len(paths) == 0 {
		t.Fatal("no testdata")
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			w, err := newWorld(t, load(t, path), nil)
			if err == nil {
				err = w.run(context.Background())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// check runs a plan. A failing plan is shrunk, saved and reported with the command that repeats it.
func check(t *testing.T, p Plan, seldom *atomic.Int64) bool {
	trace, err := attempt(t, strconv.FormatUint(p.Seed, 10), p)
	if err == nil {
		return true
	}
	if seldom.Load() < int64(*rare) && passes(t, p) {
		seldom.Add(1)
		t.Logf("history %d failed once, but passed when repeated: %v\n%s", p.Seed, err, strings.Join(trace, "\n"))
		return false
	}
	t.Logf("history %d fails, and is being shrunk: %v", p.Seed, err)
	n := 0
	short := shrink(p, *shrinking, func(shorter Plan) bool {
		n++
		longer, again := attempt(t, fmt.Sprintf("%d-shrink-%d", p.Seed, n), shorter)
		if again != nil {
			err, trace = again, longer
		}
		return again != nil
	})
	t.Errorf("history %d fails: %v\n%d of its %d steps are enough:\n%s\nrepeat it with: make check-histories HISTORY=%d, or HISTORY=%s",
		p.Seed, err, len(short.Steps), len(p.Steps), strings.Join(trace, "\n"), p.Seed, save(t, short))
	return false
}

// passes reports whether a plan passes three times.
func passes(t *testing.T, p Plan) bool {
	for n := range 3 {
		if _, err := attempt(t, fmt.Sprintf("%d-again-%d", p.Seed, n+1), p); err != nil {
			return false
		}
	}
	return true
}

func save(t *testing.T, p Plan) string {
	folder := *keep
	if folder == "" {
		folder = filepath.Join(os.TempDir(), "weft-histories")
	}
	text, err := json.MarshalIndent(p, "", " ")
	path := filepath.Join(folder, fmt.Sprintf("%d.json", p.Seed))
	if err == nil {
		err = os.MkdirAll(folder, 0o755)
	}
	if err == nil {
		err = os.WriteFile(path, text, 0o644)
	}
	if err != nil {
		t.Error(err)
	}
	return path
}

func load(t *testing.T, path string) (p Plan) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// replayed runs one history with the operator's log.
func replayed(t *testing.T) {
	seed, err := strconv.ParseUint(*replay, 10, 64)
	p := generate(seed)
	if err != nil {
		p = load(t, *replay)
	}
	trace, err := attempt(t, "replay", p)
	t.Log(strings.Join(trace, "\n"))
	if err != nil {
		t.Error(err)
	}
}
