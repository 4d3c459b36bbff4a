package program

import (
	"net"

	ctrl "sigs.k8s.io/controller-runtime"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/weft-network/weft/pkg/process/logging"
	"github.com/weft-network/weft/pkg/process/metrics"
	"github.com/weft-network/weft/pkg/process/options"
	"github.com/weft-network/weft/pkg/process/version"
	"github.com/weft-network/weft/pkg/servers/addressapi"
)

// API is "weft api". It serves the HTTPS API of pools and addresses. It returns at a signal, or with the error that ends it.
func API(args []string) error {
	o, err := options.ParseAPI(args)
	if err != nil {
		return err
	}
	if err := logging.Start(o.Log); err != nil {
		return err
	}
	ctrl.Log.Info("starting API of addresses", "version", version.String())
	return aside{listen: o.Listen, health: o.Health, metrics: o.Metrics, options: addressapi.ManagerOptions,
		setup: func(mgr ctrl.Manager, listener net.Listener, ready func()) error {
			return addressapi.Setup(mgr, addressapi.Settings{Listener: listener, Audiences: o.Audiences, Ready: ready,
				Certificate: &addressapi.Certificate{PrivateKey: o.PrivateKey, Certificate: o.Certificate},
				Observe:     metrics.NewAPI(ctrlmetrics.Registry).Request})
		}}.run()
}
