package options

import (
	"errors"
	"flag"

	"github.com/weft-network/weft/pkg/ports"
)

// Extender is the command line of "weft extender".
type Extender struct {
	// Listen is where kube-schedulers connect.
	Listen string
	// PrivateKey, Certificate and ClientCA are PEM files.
	PrivateKey, Certificate, ClientCA string
	// Health and Metrics are listen addresses. "0" switches metrics off.
	Health, Metrics string
	Log             Log
}

// ParseExtender parses the arguments after "extender".
func ParseExtender(args []string) (Extender, error) {
	var o Extender
	flags := flag.NewFlagSet("weft extender", flag.ContinueOnError)
	o.Log.flags(flags)
	flags.StringVar(&o.Listen, "bind-address", ports.Any(ports.Extender), "address where kube-schedulers connect with HTTPS")
	flags.StringVar(&o.PrivateKey, "private-key", tlsDir+"/tls.key", "this server's key, read for each connection")
	flags.StringVar(&o.Certificate, "certificate", tlsDir+"/tls.crt", "this server's certificate, read for each connection")
	flags.StringVar(&o.ClientCA, "client-ca", tlsDir+"/ca.crt",
		"certificates of the authorities that sign kube-schedulers' certificates, read for each connection; they must sign "+
			"for nobody else, because a client can schedule pods")
	flags.StringVar(&o.Health, "health-probe-bind-address", ports.Any(ports.ExtenderHealth), "address of /healthz and /readyz")
	flags.StringVar(&o.Metrics, "metrics-bind-address", ports.Any(ports.ExtenderMetrics), "address of /metrics; 0 for none")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.Listen == "" || o.PrivateKey == "" || o.Certificate == "" || o.ClientCA == "" {
		return o, errors.New("--bind-address, --private-key, --certificate and --client-ca are required")
	}
	return o, nil
}
