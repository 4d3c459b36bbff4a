// Command weft is the operator: it turns Nodes and Pods into an OVN logical topology and keeps it converged.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"sync"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/weft-network/weft/controllers"
	"github.com/weft-network/weft/controllers/egressip"
	"github.com/weft-network/weft/pkg/admin"
	"github.com/weft-network/weft/pkg/metrics"
	"github.com/weft-network/weft/pkg/options"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/northbound"
	"github.com/weft-network/weft/pkg/version"
)

func main() {
	ctrl.SetLogger(zap.New())
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "weft:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 0 && args[0] == "admin" {
		return admin.Command(context.Background(), args[1:], os.Stdin, os.Stdout)
	}
	if len(args) > 0 && args[0] == "operands" {
		return runOperands(args[1:])
	}
	if len(args) > 0 && args[0] == "preflight" {
		return runPreflight(args[1:])
	}
	o, err := options.ParseOperator(args)
	if err != nil {
		return err
	}
	ctrl.Log.Info("starting", "version", version.String())
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	p := &program{options: o, config: config, metrics: metrics.New(ctrlmetrics.Registry), health: &controllers.Health{}}
	campaign := controllers.Campaign{Lead: p.lead, Log: ctrl.Log, Await: func(ctx context.Context) error {
		return ovndb.Await(ctx, northbound.Schema(), o.Northbound, ovndb.TLS(o.TLS))
	}, Answered: func() { p.metrics.Reachable(northbound.Schema().Model.Name()) }}
	return together(ctrl.SetupSignalHandler(), campaign.Run, p.serveMetrics, func(ctx context.Context) error { return p.health.Serve(ctx, o.Health) })
}

// together runs all until one ends or ctx does, and then ends the others.
func together(ctx context.Context, all ...func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, len(all))
	var running sync.WaitGroup
	for i, one := range all {
		running.Go(func() {
			defer stop()
			errs[i] = one(ctx)
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// program is what outlives a leadership.
type program struct {
	options options.Operator
	config  *rest.Config
	metrics *metrics.Metrics
	health  *controllers.Health
}

// lead runs one manager: it campaigns for the lease, and works while it has it.
func (p *program) lead(ctx context.Context) error {
	mgr, err := newManager(p.config, p.options)
	if err != nil {
		return err
	}
	engine, err := controllers.Setup(mgr, controllers.Options{Northbound: p.options.Northbound, TLS: ovndb.TLS(p.options.TLS), Observer: p.metrics, Violations: p.metrics.Violations, Reported: p.metrics.Reported, Programmed: p.metrics.Programmed, Propagated: p.metrics.Propagated, CountDelay: controllers.CountDelay, AdminSocket: p.options.AdminSocket, ResolvConf: p.options.ResolvConf,
		Namespace: p.options.Namespace, Version: version.String(),
		Probe: probe(p.options.ProbePort), ProbeInterval: p.options.ProbeInterval, ProbeMisses: p.options.ProbeMisses})
	if err != nil {
		return err
	}
	p.health.Begin(mgr.Elected(), engine)
	defer p.health.End()
	defer p.metrics.Forget()
	return mgr.Start(ctx)
}

// probe asks nodes at a port; nil where there is none.
func probe(port int) egressip.Probe {
	if port == 0 {
		return nil
	}
	return egressip.TCPProbe(port)
}

func (p *program) serveMetrics(ctx context.Context) error {
	server, err := metricsserver.NewServer(metricsserver.Options{BindAddress: p.options.Metrics}, p.config, http.DefaultClient)
	if err != nil {
		return err
	}
	if server == nil { // switched off
		<-ctx.Done()
		return nil
	}
	return server.Start(ctx)
}

func newManager(config *rest.Config, o options.Operator) (ctrl.Manager, error) {
	managerOptions, err := controllers.ManagerOptions(o)
	if err != nil {
		return nil, err
	}
	if o.LeaderElection && o.Identity != "" {
		if managerOptions.LeaderElectionResourceLockInterface, err = controllers.Lease(config, o); err != nil {
			return nil, err
		}
	}
	config.QPS, config.Burst = 200, 400 // writes per event are few; the API server's own fairness is the limit
	return ctrl.NewManager(config, managerOptions)
}
