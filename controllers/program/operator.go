package program

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/weft-network/weft/controllers"
	"github.com/weft-network/weft/controllers/campaign"
	"github.com/weft-network/weft/controllers/egressip"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/northbound"
	"github.com/weft-network/weft/pkg/process/leadership"
	"github.com/weft-network/weft/pkg/process/logging"
	"github.com/weft-network/weft/pkg/process/metrics"
	"github.com/weft-network/weft/pkg/process/options"
	"github.com/weft-network/weft/pkg/process/version"
)

// Operator is "weft", the operator of the network. It returns at a signal, or when the process must exit.
func Operator(args []string) error {
	o, err := options.ParseOperator(args)
	if err != nil {
		return err
	}
	if err := logging.Start(o.Log); err != nil {
		return err
	}
	ctrl.Log.Info("starting", "version", version.String())
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 200, 400 // each event causes few writes; the API server's own fairness is the limit
	p := &program{options: o, metrics: metrics.NewOperator(ctrlmetrics.Registry), health: &campaign.Health{}}
	managerOptions, err := controllers.ManagerOptions()
	if err != nil {
		return err
	}
	if p.process, err = leadership.New(config, managerOptions, leaseIf(o.LeaderElection, controllers.Lease(o)),
		ctrl.Log.WithName("lease")); err != nil {
		return err
	}
	c := campaign.Campaign{Log: ctrl.Log, Lead: func(ctx context.Context) error { return p.process.Lead(ctx, p.setup) },
		Await: func(ctx context.Context) error {
			return ovndb.Await(ctx, northbound.Schema(), o.Northbound, ovndb.TLS(o.TLS))
		}, Answered: func() { p.metrics.Reachable(northbound.Schema().Model.Name()) }}
	return together(ctrl.SetupSignalHandler(), c.Run, p.process.Run, serveMetrics(config, o.Metrics), func(ctx context.Context) error {
		return p.health.Serve(ctx, o.Health)
	})
}

// program holds what outlives a leadership.
type program struct {
	options options.Operator
	process *leadership.Process
	metrics *metrics.Operator
	health  *campaign.Health
}

// setup registers the work of one manager.
func (p *program) setup(mgr ctrl.Manager) (stopped func(error), err error) {
	if err := ensureDefinitions(context.Background(), mgr.GetConfig()); err != nil {
		return nil, err
	}
	engine, err := controllers.Setup(mgr, controllers.Options{Zone: kind.Zone(p.options.Zone), Northbound: p.options.Northbound,
		TLS: ovndb.TLS(p.options.TLS), Observer: p.metrics, Violations: p.metrics.Violations,
		Reported: p.metrics.Reported, Programmed: p.metrics.Programmed, Propagated: p.metrics.Propagated,
		CountDelay: controllers.CountDelay, AdminSocket: p.options.AdminSocket, ResolvConf: p.options.ResolvConf,
		Workloads: p.metrics, Namespace: p.options.Namespace, Version: version.String(),
		Announcing: p.metrics.Announcing, Sessions: p.metrics.Sessions, AgentProbe: agentProbe(p.options.ProbePort),
		Probe: probe(p.options.ProbePort), ProbeInterval: p.options.ProbeInterval, ProbeMisses: p.options.ProbeMisses})
	if err != nil {
		return nil, err
	}
	p.health.Begin(mgr.Elected(), engine)
	return func(cause error) {
		p.health.End(cause)
		p.metrics.Forget()
	}, nil
}

// probe returns a probe of nodes at a port, or nil if port is 0.
func probe(port int) egressip.Probe {
	if port == 0 {
		return nil
	}
	return egressip.TCPProbe(port)
}

// agentProbe returns a probe of agents at a port, or nil if port is 0.
func agentProbe(port int) egressip.Probe {
	if port == 0 {
		return nil
	}
	return egressip.AgentProbe(port)
}
