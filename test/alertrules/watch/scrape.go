package watch

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/prometheus/prometheus/scrape"
	"github.com/prometheus/prometheus/tsdb"
)

// job is the name of the one group of targets.
const job = "weft"

// scraper reads the targets.
type scraper struct{ manager *scrape.Manager }

func startScraper(db *tsdb.DB, o Options) (*scraper, error) {
	cfg,
		err := config.Load(
		fmt.Sprintf(
			"global: {scrape_interval: %[1]s, scrape_timeout: %[1]s}\nscrape_configs: [{job_name: %[2]s}]",
			model.Duration(o.Interval), job), promslog.NewNopLogger())
	if err != nil {
		return nil, err
	}
	// Scraping a target that does not exist fails, which ends its series, just as when discovery removes it.
	manager, err := scrape.NewManager(&scrape.Options{DiscoveryReloadInterval: model.Duration(o.Interval)},
		promslog.NewNopLogger(), nil, db, prometheus.NewRegistry())
	if err != nil {
		return nil, err
	}
	if err := manager.ApplyConfig(cfg); err != nil {
		return nil, err
	}
	group := &targetgroup.Group{Source: "static"}
	for _, target := range o.Targets {
		group.Targets = append(group.Targets, model.LabelSet{model.AddressLabel: model.LabelValue(target)})
	}
	discovered := make(chan map[string][]*targetgroup.Group, 1)
	discovered <- map[string][]*targetgroup.Group{job: {group}}
	go func() { _ = manager.Run(discovered) }() // ends with stop
	return &scraper{manager}, nil
}

func (s *scraper) stop() { s.manager.Stop() }

// health returns for each target whether its last scrape succeeded.
func (s *scraper) health() map[string]bool {
	found := map[string]bool{}
	for _, targets := range s.manager.TargetsActive() {
		for _, t := range targets {
			found[t.GetValue(model.InstanceLabel)] = t.Health() == scrape.HealthGood
		}
	}
	return found
}
