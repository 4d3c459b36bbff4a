// Package options reads the command lines of the programs.
package options

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/weft-network/weft/pkg/ports"
)

// DefaultAdminSocket is the socket in the operator's pod on which it serves "weft admin".
const DefaultAdminSocket = "/run/weft/admin.sock"

// Operator is the operator's command line.
type Operator struct {
	// Northbound are the OVSDB remotes of the northbound database, at least one.
	Northbound []string
	// TLS is for "ssl:" remotes.
	TLS TLS
	// Health and Metrics are listen addresses. "0" switches metrics off.
	Health, Metrics string
	// Zone is the zone whose rows the operator writes; empty: the default zone.
	Zone string
	// LeaderElection is off only if there is certainly one process, as in tests.
	LeaderElection bool
	// Namespace is the namespace of the lease.
	Namespace string
	// Identity is the lease holder's name, the same for every process of a pod. If it is empty, each process has its
	// own.
	Identity string
	// ResolvConf is the file that lists the name servers for DNS names in policies.
	ResolvConf string
	// ProbePort is the port at which nodes that may carry egress IPs are probed. 0 switches probing off.
	ProbePort int
	// ProbeInterval is the time between probes. ProbeMisses is the number of consecutive probes without a response
	// that make a node unreachable.
	ProbeInterval time.Duration
	ProbeMisses   int
	// AdminSocket is the unix socket for "weft admin". Empty switches it off.
	AdminSocket string
	Log         Log
}

// ParseOperator parses arguments without the program's name. The environment provides the defaults.
func ParseOperator(args []string) (Operator, error) {
	var o Operator
	var northbound string
	flags := flag.NewFlagSet("weft", flag.ContinueOnError)
	o.Log.flags(flags)
	flags.StringVar(&northbound, "nb", os.Getenv("WEFT_NB"),
		"comma-separated OVSDB remotes of the OVN northbound database, ssl:ADDRESS:PORT, tcp:ADDRESS:PORT or "+
			"unix:PATH (environment WEFT_NB)")
	o.TLS.flags(flags)
	flags.StringVar(&o.Health, "health-probe-bind-address", ports.Any(ports.OperatorHealth), "address of /healthz and /readyz")
	flags.StringVar(&o.Metrics, "metrics-bind-address", ports.Any(ports.OperatorMetrics), "address of /metrics; 0 for none")
	flags.StringVar(&o.Zone, "zone", "",
		"zone of ClusterNetwork's spec.zones whose rows are written; empty: the default zone, and all decisions")
	flags.BoolVar(&o.LeaderElection, "leader-elect", true, "work only while holding the lease")
	flags.StringVar(&o.Namespace, "leader-election-namespace", "weft-system", "namespace of the lease")
	flags.StringVar(&o.Identity, "leader-election-identity", os.Getenv("POD_UID"),
		"name of the lease's holder, the same after a restart in the same pod (environment POD_UID); empty: each process has its own")
	flags.StringVar(&o.ResolvConf, "resolv-conf", "/etc/resolv.conf",
		"file that lists the name servers for DNS names in policies, in the format of resolv.conf(5)")
	flags.StringVar(&o.AdminSocket, "admin-socket", DefaultAdminSocket, "unix socket for \"weft admin\"; empty for none")
	flags.IntVar(&o.ProbePort, "egressip-probe-port", ports.AgentHealth,
		"TCP port at which nodes that may carry egress IPs are probed: the port of the agent's "+
			"health; 0: no probes, and all nodes count as reachable")
	flags.DurationVar(&o.ProbeInterval, "egressip-probe-interval", time.Second,
		"time between probes, and time limit of a response")
	flags.IntVar(&o.ProbeMisses, "egressip-probe-misses", 3,
		"number of consecutive missing responses after which a node's egress IPs move to another")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.ProbePort < 0 || o.ProbePort > 65535 || o.ProbeInterval <= 0 || o.ProbeMisses < 1 {
		return o,
			fmt.Errorf(
				"--egressip-probe-port %d, --egressip-probe-interval %s, --egressip-probe-misses %d: the port must be in "+
					"0..65535, the others must be positive",
				o.ProbePort, o.ProbeInterval, o.ProbeMisses)
	}
	var err error
	o.Northbound, err = remotes("--nb", northbound)
	return o, err
}

// remotes splits and checks a list of OVSDB remotes.
func remotes(flagName, list string) ([]string, error) {
	var found []string
	for remote := range strings.SplitSeq(list, ",") {
		remote = strings.TrimSpace(remote)
		scheme, rest, _ := strings.Cut(remote, ":")
		switch {
		case remote == "":
			continue
		case scheme != "ssl" && scheme != "tcp" && scheme != "unix" || rest == "":
			return nil, fmt.Errorf("%s: %q is not ssl:ADDRESS:PORT, tcp:ADDRESS:PORT or unix:PATH", flagName, remote)
		}
		found = append(found, remote)
	}
	if len(found) == 0 {
		return nil, errors.New(flagName + " is required")
	}
	return found, nil
}
