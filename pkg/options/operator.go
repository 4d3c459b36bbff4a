// Package options reads the command lines of the programs.
package options

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
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
	if err := flags.Parse(args); err != nil {
		return o, err
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
