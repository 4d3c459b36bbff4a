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
	"github.com/weft-network/weft/pkg/extender"
	"github.com/weft-network/weft/pkg/options"
	"github.com/weft-network/weft/pkg/version"
)

// Extender is "weft extender". It answers kube-schedulers about pods that request floating IPs. It returns at a signal,
// or with the error that ends it.
func Extender(args []string) error {
	o, err := options.ParseExtender(args)
	if err != nil {
		return err
	}
	ctrl.Log.Info("starting extender", "version", version.String())
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 500, 1000 // a bind is a read and up to three writes; the API server's own fairness is the limit
	managerOptions, err := extender.ManagerOptions()
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
	if _, err := extender.Setup(mgr, extender.Options{Listener: listener, Ready: func() { ready.Store(true) },
		TLS: extender.TLS{PrivateKey: o.PrivateKey, Certificate: o.Certificate, ClientCA: o.ClientCA}}); err != nil {
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
