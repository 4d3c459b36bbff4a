// Command weft-agent is a node's part of Weft: see package agent.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent"
	"github.com/weft-network/weft/pkg/agent/cri"
	"github.com/weft-network/weft/pkg/metrics"
	"github.com/weft-network/weft/pkg/options"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/version"
)

func main() {
	beFrugal()
	ctrl.SetLogger(zap.New())
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "weft-agent:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	commands := map[string]func([]string) error{"uninstall": uninstall, "uplink": uplinkCommand, "uplink-guard": guard}
	if len(args) > 0 && commands[args[0]] != nil {
		return commands[args[0]](args[1:])
	}
	o, err := options.ParseAgent(args)
	if err != nil {
		return err
	}
	ctrl.Log.Info("starting", "version", version.String(), "node", o.Node)
	ctx, mover := ctrl.SetupSignalHandler(), newMover(o.OpenVSwitch, o.Uplink)
	recoverUplink(ctx, mover)
	mgr, err := newManager(o)
	if err != nil {
		return err
	}
	counters, cniCounters := metrics.New(ctrlmetrics.Registry), metrics.NewCNI(ctrlmetrics.Registry, agent.StageNames()...)
	metrics.NewPolicies(ctrlmetrics.Registry, func() []metrics.Rule { return countRules(ctx, o) })
	var sandboxes func(context.Context) (map[string]bool, error)
	if o.CRISocket != "" {
		sandboxes = cri.New(o.CRISocket).Sandboxes
	}
	err = agent.Setup(ctx, mgr, agent.Options{
		Node: o.Node, Version: version.String(), Southbound: o.Southbound, Controller: o.Controller, TLS: ovndb.TLS(o.TLS), OpenVSwitch: o.OpenVSwitch,
		Socket: o.Socket, ConfDir: o.ConfDir, BinDir: o.BinDir, BinSource: o.BinSource,
		ControllerDir: o.ControllerDir, SwitchDir: o.SwitchDir, Mover: mover, APIServer: apiServer(),
		Observer: counters, ObserveRequest: counters.Request,
		Sandboxes: sandboxes, ObserveCollected: cniCounters.Collected,
		ObserveStage: cniCounters.Stage, ObserveStageFailed: cniCounters.StageFailed, ObserveFailing: cniCounters.Failing,
	})
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// countRules asks what rules decided. A node whose switch does not answer tells nothing of them, and all else.
func countRules(ctx context.Context, o options.Agent) (rules []metrics.Rule) {
	counted, err := agent.CountRules(ctx, o.ControllerDir, o.SwitchDir)
	if err != nil {
		ctrl.Log.V(1).Info("what rules decided is not known", "reason", err.Error())
	}
	for _, c := range counted {
		rules = append(rules, metrics.Rule(c))
	}
	return rules
}

// uninstall takes everything of ours off this node.
func uninstall(args []string) error {
	o, err := options.ParseUninstall(args)
	if err != nil {
		return err
	}
	ctx := ctrl.SetupSignalHandler()
	err = agent.Uninstall{OpenVSwitch: o.OpenVSwitch, SwitchDir: o.SwitchDir, Socket: o.Socket, ConfDir: o.ConfDir, BinDir: o.BinDir,
		CutPods: o.CutPods, Mover: newMover(o.OpenVSwitch, o.Uplink), Log: ctrl.Log}.Run(ctx)
	if err == nil && o.Stay {
		<-ctx.Done()
	}
	return err
}

// newManager returns a manager whose cache holds this node's two objects and what of services concerns it, and which knows only the kinds that the agent
// uses.
func newManager(o options.Agent) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), discoveryv1.AddToScheme(scheme), eventsv1.AddToScheme(scheme), networkv1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, err
	}
	mine := cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", o.Node)}
	cached := agent.CachedServices(o.Node)
	cached[&corev1.Node{}], cached[&networkv1alpha1.NodeNetwork{}] = mine, mine
	return ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme,
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject:         cached,
		},
		Metrics:                metricsserver.Options{BindAddress: o.Metrics},
		HealthProbeBindAddress: o.Health,
	})
}
