// Package options reads the command lines of the programs.
package options

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

// DefaultAdminSocket is where the operator listens for its administrator in its pod.
const DefaultAdminSocket = "/run/weft/admin.sock"

// Operator is the operator's command line.
type Operator struct {
	// Northbound are the OVSDB remotes of the northbound database, at least one.
	Northbound []string
	// TLS is for those of them that are "ssl:".
	TLS TLS
	// Health and Metrics are listen addresses; "0" switches metrics off.
	Health, Metrics string
	// LeaderElection is off only where one process is certain, as in tests.
	LeaderElection bool
	// Namespace is where the lease is.
	Namespace string
	// Identity is the lease holder's name, the same for every process of a pod; empty: each process has its own.
	Identity string
	// ResolvConf is the file that names the name servers for DNS names in policies.
	ResolvConf string
	// ProbePort is the port at which nodes that may carry egress IPs are asked whether they are there; 0: they are not.
	ProbePort int
	// ProbeInterval is how often, ProbeMisses how many answers in a row must be missing.
	ProbeInterval time.Duration
	ProbeMisses   int
	// AdminSocket is the unix socket for "weft admin"; empty: none.
	AdminSocket string
}

// ParseOperator reads arguments without the program's name; the environment gives the defaults.
func ParseOperator(args []string) (Operator, error) {
	var o Operator
	var northbound string
	flags := flag.NewFlagSet("weft", flag.ContinueOnError)
	flags.StringVar(&northbound, "nb", os.Getenv("WEFT_NB"), "comma-separated OVSDB remotes of the OVN northbound database, ssl:ADDRESS:PORT, tcp:ADDRESS:PORT or unix:PATH (environment WEFT_NB)")
	o.TLS.flags(flags)
	flags.StringVar(&o.Health, "health-probe-bind-address", ":9440", "address of /healthz and /readyz")
	flags.StringVar(&o.Metrics, "metrics-bind-address", ":9441", "address of /metrics; 0 for none")
	flags.BoolVar(&o.LeaderElection, "leader-elect", true, "work only while holding the lease")
	flags.StringVar(&o.Namespace, "leader-election-namespace", "weft-system", "namespace of the lease")
	flags.StringVar(&o.Identity, "leader-election-identity", os.Getenv("POD_UID"), "name of the lease's holder, the same after a restart in the same pod (environment POD_UID); empty: each process has its own")
	flags.StringVar(&o.ResolvConf, "resolv-conf", "/etc/resolv.conf", "file that names the name servers for DNS names in policies, as resolv.conf(5)")
	flags.StringVar(&o.AdminSocket, "admin-socket", DefaultAdminSocket, "unix socket on which \"weft admin\" is answered; empty for none")
	flags.IntVar(&o.ProbePort, "egressip-probe-port", 9442, "TCP port at which nodes that may carry egress IPs are asked whether they are there: that of the agent's health; 0: they are not asked, and count as reachable")
	flags.DurationVar(&o.ProbeInterval, "egressip-probe-interval", time.Second, "how often they are asked, and how long an answer may take")
	flags.IntVar(&o.ProbeMisses, "egressip-probe-misses", 3, "how many answers in a row must be missing before a node's egress IPs move to another")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.ProbePort < 0 || o.ProbePort > 65535 || o.ProbeInterval <= 0 || o.ProbeMisses < 1 {
		return o, fmt.Errorf("--egressip-probe-port %d, --egressip-probe-interval %s, --egressip-probe-misses %d: a port is in 0..65535, the others are positive",
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
