package options

import (
	"errors"
	"flag"
	"strings"

	"github.com/weft-network/weft/pkg/ports"
)

// API is the command line of "weft api".
type API struct {
	// Listen is where clients connect.
	Listen string
	// PrivateKey and Certificate are PEM files.
	PrivateKey, Certificate string
	// Audiences lists the accepted audiences of tokens. Empty: the audiences of the API server.
	Audiences []string
	// Health and Metrics are listen addresses. "0" switches metrics off.
	Health, Metrics string
	Log             Log
}

// ParseAPI parses the arguments after "api".
func ParseAPI(args []string) (API, error) {
	var o API
	flags := flag.NewFlagSet("weft api", flag.ContinueOnError)
	o.Log.flags(flags)
	flags.StringVar(&o.Listen, "bind-address", ports.Any(ports.API), "address where clients connect with HTTPS")
	flags.StringVar(&o.PrivateKey, "private-key", tlsDir+"/tls.key", "this server's key, read for each connection")
	flags.StringVar(&o.Certificate, "certificate", tlsDir+"/tls.crt", "this server's certificate, read for each connection")
	audiences := flags.String("token-audiences", "",
		"comma-separated audiences; a token must be for one of them; empty: for the Kubernetes API server")
	flags.StringVar(&o.Health, "health-probe-bind-address", ports.Any(ports.APIHealth), "address of /healthz and /readyz")
	flags.StringVar(&o.Metrics, "metrics-bind-address", ports.Any(ports.APIMetrics), "address of /metrics; 0 for none")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.Listen == "" || o.PrivateKey == "" || o.Certificate == "" {
		return o, errors.New("--bind-address, --private-key and --certificate are required")
	}
	for _, audience := range strings.Split(*audiences, ",") {
		if audience = strings.TrimSpace(audience); audience != "" {
			o.Audiences = append(o.Audiences, audience)
		}
	}
	return o, nil
}
