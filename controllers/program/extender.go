package program

import (
	"net"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weft-network/weft/pkg/process/logging"
	"github.com/weft-network/weft/pkg/process/options"
	"github.com/weft-network/weft/pkg/process/version"
	"github.com/weft-network/weft/pkg/servers/extender"
)

// Extender is "weft extender". It answers kube-schedulers about pods that request floating IPs. It returns at a signal,
// or with the error that ends it.
func Extender(args []string) error {
	o, err := options.ParseExtender(args)
	if err != nil {
		return err
	}
	if err := logging.Start(o.Log); err != nil {
		return err
	}
	ctrl.Log.Info("starting extender", "version", version.String())
	return aside{listen: o.Listen, health: o.Health, metrics: o.Metrics, options: extender.ManagerOptions,
		setup: func(mgr ctrl.Manager, listener net.Listener, ready func()) error {
			_, err := extender.Setup(mgr, extender.Options{Listener: listener, Ready: ready,
				TLS: extender.TLS{PrivateKey: o.PrivateKey, Certificate: o.Certificate, ClientCA: o.ClientCA}})
			return err
		}}.run()
}
