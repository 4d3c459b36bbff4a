package program

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/weft-network/weft/controllers/campaign"
	"github.com/weft-network/weft/pkg/addressapi"
	"github.com/weft-network/weft/pkg/metrics"
	"github.com/weft-network/weft/pkg/options"
	"github.com/weft-network/weft/pkg/version"
)

// API is "weft api". It serves the HTTPS API of pools and addresses. It returns at a signal, or with the error that ends it.
func API(args []string) error {
	o, err := options.ParseAPI(args)
	if err != nil {
		return err
	}
	ctrl.Log.Info("starting API of addresses", "version", version.String())
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 500, 1000 // a request is two reviews and a few reads; the API server's own fairness is the limit
	managerOptions, err := addressapi.ManagerOptions()
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, managerOptions)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", o.Listen)
	if err != nil {
		return err
	}
	var ready atomic.Bool
	if err := addressapi.Setup(mgr, addressapi.Settings{Listener: listener, Audiences: o.Audiences,
		Certificate: &addressapi.Certificate{PrivateKey: o.PrivateKey, Certificate: o.Certificate},
		Observe:     metrics.NewAPI(ctrlmetrics.Registry).Request, Ready: func() { ready.Store(true) }}); err != nil {
		return errors.Join(err, listener.Close())
	}
	isReady := func(*http.Request) error {
		if !ready.Load() {
			return errors.New("the caches are not in sync yet")
		}
		return nil
	}
	return together(ctrl.SetupSignalHandler(), mgr.Start, serveMetrics(config, o.Metrics), func(ctx context.Context) error {
		return campaign.ServeHealth(ctx, o.Health, "caches", healthz.Ping, isReady)
	})
}
