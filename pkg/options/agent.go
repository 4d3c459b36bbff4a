package options

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

// Agent is the agent's command line.
type Agent struct {
	// Node is the name of the Node that this process runs on.
	Node string
	// Southbound are the OVSDB remotes of the southbound database, at least one; OpenVSwitch is the local one.
	Southbound  []string
	OpenVSwitch string
	// Socket, ConfDir, BinDir and BinSource are paths of the CNI: see agent.Options.
	Socket, ConfDir, BinDir, BinSource string
	// CRISocket is the container runtime's socket; empty: its sandboxes are not compared.
	CRISocket string
	// ControllerDir is ovn-controller's run directory, SwitchDir ovs-vswitchd's.
	ControllerDir, SwitchDir string
	// Health and Metrics are listen addresses; "0" switches metrics off.
	Health, Metrics string
}

// ParseAgent reads arguments without the program's name; the environment gives the defaults.
func ParseAgent(args []string) (Agent, error) {
	var o Agent
	var southbound string
	flags := flag.NewFlagSet("weft-agent", flag.ContinueOnError)
	flags.StringVar(&o.Node, "node-name", os.Getenv("NODE_NAME"), "name of this Node (environment NODE_NAME)")
	flags.StringVar(&southbound, "sb", os.Getenv("WEFT_SB"), "comma-separated OVSDB remotes of the OVN southbound database (environment WEFT_SB)")
	flags.StringVar(&o.OpenVSwitch, "ovs", "unix:/run/openvswitch/db.sock", "OVSDB remote of the local Open_vSwitch database")
	flags.StringVar(&o.ControllerDir, "ovn-run-dir", "/run/ovn", "run directory of ovn-controller; empty: whether it runs is not watched")
	flags.StringVar(&o.SwitchDir, "ovs-run-dir", "/run/openvswitch", "run directory of ovs-vswitchd; empty: whether it runs is not watched")
	flags.StringVar(&o.Socket, "cni-socket", "/run/weft/cni.sock", "socket of the CNI server")
	flags.StringVar(&o.CRISocket, "cri-socket", "", "socket of the container runtime's CRI service, such as /run/containerd/containerd.sock, to find interfaces whose sandbox is gone; empty: not asked")
	flags.StringVar(&o.ConfDir, "cni-conf-dir", "/etc/cni/net.d", "directory of the runtime's network configurations")
	flags.StringVar(&o.BinDir, "cni-bin-dir", "/opt/cni/bin", "directory of the runtime's CNI plugins")
	flags.StringVar(&o.BinSource, "cni-bin-source", "/opt/weft/cni", "directory of the plugins to install")
	flags.StringVar(&o.Health, "health-probe-bind-address", ":9442", "address of /healthz and /readyz")
	flags.StringVar(&o.Metrics, "metrics-bind-address", ":9443", "address of /metrics; 0 for none")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.Node == "" {
		return o, errors.New("--node-name is required")
	}
	if o.CRISocket != "" && !filepath.IsAbs(o.CRISocket) {
		return o, fmt.Errorf("--cri-socket: %q is not an absolute path", o.CRISocket)
	}
	var err error
	if o.Southbound, err = remotes("--sb", southbound); err != nil {
		return o, err
	}
	_, err = remotes("--ovs", o.OpenVSwitch)
	return o, err
}
