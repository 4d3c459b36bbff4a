// Command weft-agent runs on each node: see package agent.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent"
	"github.com/weft-network/weft/pkg/agent/attach"
	"github.com/weft-network/weft/pkg/agent/cri"
	"github.com/weft-network/weft/pkg/agent/gateway"
	"github.com/weft-network/weft/pkg/agent/policylog"
	"github.com/weft-network/weft/pkg/agent/repairs"
	"github.com/weft-network/weft/pkg/agent/secondary"
	"github.com/weft-network/weft/pkg/agent/uninstall"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/process/informers"
	"github.com/weft-network/weft/pkg/process/logging"
	"github.com/weft-network/weft/pkg/process/metrics"
	"github.com/weft-network/weft/pkg/process/options"
	"github.com/weft-network/weft/pkg/process/version"
)

func main() {
	beFrugal()
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "weft-agent:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	commands := map[string]func([]string) error{"uninstall": runUninstall, "uplink": uplinkCommand, "uplink-guard": guard,
		secondary.LaunchCommand: secondary.Launch}
	if len(args) > 0 && commands[args[0]] != nil {
		logging.StartAnyway()
		return commands[args[0]](args[1:])
	}
	o, err := options.ParseAgent(args)
	if err != nil {
		return err
	}
	if err := logging.Start(o.Log); err != nil {
		return err
	}
	ctrl.Log.Info("starting", "version", version.String(), "node", o.Node)
	ctx, mover := ctrl.SetupSignalHandler(), newMover(o.OpenVSwitch, o.Uplink)
	recoverUplink(ctx, mover)
	go mover.Watch(ctx) // needs neither the API server nor Open vSwitch
	gateway.FreeReserved(ctx)
	mgr, err := newManager(o)
	if err != nil {
		return err
	}
	counters := metrics.NewAgent(ctrlmetrics.Registry, attach.StageNames(), repairs.Kinds())
	metrics.NewPolicies(ctrlmetrics.Registry, func() []metrics.Rule { return countRules(ctx, o) })
	var sandboxes func(context.Context) (map[string]bool, error)
	if o.CRISocket != "" {
		sandboxes = cri.New(o.CRISocket).Sandboxes
	}
	err = agent.Setup(ctx, mgr, agent.Options{
		Node: o.Node, Version: version.String(), Southbound: o.Southbound, Controller: o.Controller, TLS: ovndb.TLS(o.TLS),
		OpenVSwitch: o.OpenVSwitch, Socket: o.Socket, ConfDir: o.ConfDir, BinDir: o.BinDir, BinSource: o.BinSource,
		State: o.Uplink.StateDir, Delegates: o.Delegates, Root: o.Root, PodResources: o.PodResources,
		IKESocket: o.IKESocket, Identity: o.Identity,
		ControllerDir: o.ControllerDir, SwitchDir: o.SwitchDir, Mover: mover, APIServer: apiServer(),
		Listeners: []string{o.Health, o.Metrics, o.ProxyHealth}, ProxyHealth: o.ProxyHealth,
		ObserveProgrammed: counters.ServiceProgrammed, ObserveSynced: counters.ServicesSynced,
		Observer: counters, ObserveRequest: counters.Request,
		Sandboxes: sandboxes, ObserveCollected: counters.Collected,
		ObserveStage: counters.Stage, ObserveStageFailed: counters.StageFailed, ObserveFailing: counters.Failing,
		ObserveRepair: counters.Repaired,
	})
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// countRules returns how often policy rules matched. Without an answer from the node's switch it returns no rules, so
// that the other metrics are still served.
func countRules(ctx context.Context, o options.Agent) (rules []metrics.Rule) {
	counted, err := policylog.CountRules(ctx, o.ControllerDir, o.SwitchDir)
	if err != nil {
		ctrl.Log.V(1).Info("cannot count the decisions of policy rules; their metrics are absent", "error", err.Error())
	}
	for _, c := range counted {
		rules = append(rules, metrics.Rule(c))
	}
	return rules
}

// runUninstall removes everything that Weft created from this node.
func runUninstall(args []string) error {
	o, err := options.ParseUninstall(args)
	if err != nil {
		return err
	}
	ctx := ctrl.SetupSignalHandler()
	err = uninstall.Node{OpenVSwitch: o.OpenVSwitch, SwitchDir: o.SwitchDir, Socket: o.Socket, ConfDir: o.ConfDir, BinDir: o.BinDir,
		CutPods: o.CutPods, Mover: newMover(o.OpenVSwitch, o.Uplink), Log: ctrl.Log}.Run(ctx)
	if err == nil && o.Stay {
		<-ctx.Done()
	}
	return err
}

// newManager returns a manager whose cache holds this node's Node and NodeNetwork, and the parts of services that
// concern the node. Its scheme contains only the kinds that the agent uses.
func newManager(o options.Agent) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), discoveryv1.AddToScheme(scheme), eventsv1.AddToScheme(scheme),
		networkv1alpha1.AddToScheme(scheme), nadv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, err
	}
	mine := cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", o.Node)}
	cached := gateway.CachedServices(o.Node)
	cached[&corev1.Node{}], cached[&networkv1alpha1.NodeNetwork{}] = mine, mine
	return ctrl.NewManager(config, ctrl.Options{
		Scheme:   scheme,
		NewCache: informers.NewCache,
		Cache: cache.Options{
			DefaultTransform:             cache.TransformStripManagedFields(),
			DefaultUnsafeDisableDeepCopy: new(true), // what is written is a copy first
			ByObject:                     cached,
		},
		Metrics:                metricsserver.Options{BindAddress: o.Metrics},
		HealthProbeBindAddress: o.Health,
	})
}
