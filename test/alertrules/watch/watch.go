package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/tsdb"
)

// Options selects what to scrape and evaluate.
type Options struct {
	// Rules is a file of Prometheus' rules. They are evaluated once for each of Factors, with all durations divided
	// by it.
	Rules   string
	Factors []int
	// Targets are ADDRESS:PORT, whose /metrics is read over plain HTTP.
	Targets []string
	// Interval is the time between two scrapes of a target, and between two evaluations.
	Interval time.Duration
}

// maxSamples and queryTimeout are Prometheus' defaults.
const (
	maxSamples   = 50_000_000
	queryTimeout = 2 * time.Minute
)

// Run watches until ctx ends. It calls report for each change, from one goroutine at a time.
func Run(ctx context.Context, o Options, report func(Event)) (err error) {
	dir, err := os.MkdirTemp("", "weft-alerts-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	db, err := tsdb.Open(dir, promslog.NewNopLogger(), nil, tsdb.DefaultOptions(), nil)
	if err != nil {
		return fmt.Errorf("tsdb: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	changes := newReporter(report)
	scraper, err := startScraper(db, o)
	if err != nil {
		return err
	}
	defer scraper.stop()
	manager, err := startRules(ctx, db, o, dir, changes)
	if err != nil {
		return err
	}
	defer manager.Stop()
	ticker := time.NewTicker(o.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			changes.targets(scraper.health())
		}
	}
}

// startRules evaluates the rules on the database.
func startRules(ctx context.Context, db *tsdb.DB, o Options, dir string, changes *reporter) (*rules.Manager, error) {
	var files []string
	for _, factor := range o.Factors {
		file, err := divide(o.Rules, dir, factor)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: maxSamples, Timeout: queryTimeout,
		EnableAtModifier: true, EnableNegativeOffset: true})
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(engine, db), Appendable: db, Queryable: db, Context: ctx,
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
		Logger:     promslog.NewNopLogger(), Registerer: prometheus.NewRegistry(),
	})
	err := manager.Update(o.Interval, files, labels.EmptyLabels(), "", func(ctx context.Context, g *rules.Group, at time.Time) {
		rules.DefaultEvalIterationFunc(ctx, g, at)
		changes.evaluated(g, at)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Rules, err)
	}
	go manager.Run()
	return manager, nil
}
