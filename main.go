// Command weft is the operator: it turns Nodes and Pods into an OVN logical topology and keeps it converged.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers"
	"github.com/weft-network/weft/pkg/metrics"
	"github.com/weft-network/weft/pkg/options"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/version"
)

// The lease is short: while a killed leader's lease runs, no new pod gets an address.
const (
	leaseDuration = 8 * time.Second
	renewDeadline = 5 * time.Second
	retryPeriod   = time.Second
)

func main() {
	ctrl.SetLogger(zap.New())
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "weft:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	o, err := options.ParseOperator(args)
	if err != nil {
		return err
	}
	ctrl.Log.Info("starting", "version", version.String())
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	mgr, err := newManager(config, o)
	if err != nil {
		return err
	}
	engine, err := controllers.Setup(mgr, controllers.Options{Northbound: o.Northbound, Observer: metrics.New(ctrlmetrics.Registry)})
	if err != nil {
		return err
	}
	if err := addChecks(mgr, engine); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

func newManager(config *rest.Config, o options.Operator) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), networkv1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	lease, renew, retry := leaseDuration, renewDeadline, retryPeriod
	config.QPS, config.Burst = 200, 400 // writes per event are few; the API server's own fairness is the limit
	return ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme,
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject:         map[client.Object]cache.ByObject{&corev1.Pod{}: {Transform: controllers.StripPod}},
		},
		Metrics:                       metricsserver.Options{BindAddress: o.Metrics},
		HealthProbeBindAddress:        o.Health,
		LeaderElection:                o.LeaderElection,
		LeaderElectionID:              "weft-operator",
		LeaderElectionNamespace:       o.Namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &lease, RenewDeadline: &renew, RetryPeriod: &retry,
	})
}

// addChecks makes /healthz say that the process answers and /readyz that it can do its work: a leader needs the database, a
// stand-by only its caches.
func addChecks(mgr ctrl.Manager, engine *ovndb.Engine) error {
	ready := func(r *http.Request) error {
		select {
		case <-mgr.Elected():
		default:
			return nil
		}
		if !engine.Connected() {
			return errors.New("the OVN northbound database is not connected")
		}
		return nil
	}
	return errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("northbound", ready))
}
