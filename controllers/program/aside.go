package program

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/weft-network/weft/controllers/campaign"
)

// aside is a program beside the operator: it serves HTTPS from the caches of a manager, in every replica.
type aside struct {
	// listen, health and metrics are listen addresses.
	listen, health, metrics string
	options                 func() (ctrl.Options, error)
	// setup adds the server to the manager. It calls ready when the caches are in sync.
	setup func(mgr ctrl.Manager, listener net.Listener, ready func()) error
}

// run returns at a signal, or with the error that ends the program.
func (a aside) run() error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 500, 1000 // a request is a few calls; the API server's own fairness is the limit
	managerOptions, err := a.options()
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, managerOptions)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", a.listen)
	if err != nil {
		return err
	}
	var ready atomic.Bool
	if err := a.setup(mgr, listener, func() { ready.Store(true) }); err != nil {
		return errors.Join(err, listener.Close())
	}
	isReady := func(*http.Request) error {
		if !ready.Load() {
			return errors.New("the caches are not in sync yet")
		}
		return nil
	}
	return together(ctrl.SetupSignalHandler(), mgr.Start, serveMetrics(config, a.metrics), func(ctx context.Context) error {
		return campaign.ServeHealth(ctx, a.health, "caches", healthz.Ping, isReady)
	})
}
