// Command weft is the operator: it turns Nodes and Pods into an OVN logical topology and keeps it converged.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/weft-network/weft/controllers"
	"github.com/weft-network/weft/pkg/metrics"
	"github.com/weft-network/weft/pkg/options"
	"github.com/weft-network/weft/pkg/ovndb"
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
	engine, err := controllers.Setup(mgr, controllers.Options{
		Northbound: o.Northbound, Observer: metrics.New(ctrlmetrics.Registry), CountDelay: controllers.CountDelay,
	})
	if err != nil {
		return err
	}
	if err := addChecks(mgr, engine); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
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
