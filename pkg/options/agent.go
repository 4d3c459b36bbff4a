package options

import (
	"cmp"
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
	// Controller are the remotes of the southbound database that ovn-controller is told.
	Controller []string
	// TLS is for those of Southbound that are "ssl:".
	TLS TLS
	// Socket, ConfDir, BinDir and BinSource are paths of the CNI: see agent.Options.
	Socket, ConfDir, BinDir, BinSource string
	// CRISocket is the container runtime's socket; empty: its sandboxes are not compared.
	CRISocket string
	// ControllerDir is ovn-controller's run directory, SwitchDir ovs-vswitchd's.
	ControllerDir, SwitchDir string
	// Uplink says where links are moved from and to.
	Uplink Uplink
	// Health and Metrics are listen addresses; "0" switches metrics off.
	Health, Metrics string
}

// Uninstall is the command line of "weft-agent uninstall".
type Uninstall struct {
	// OpenVSwitch is the OVSDB remote of the local database.
	OpenVSwitch string
	// SwitchDir is ovs-vswitchd's run directory.
	SwitchDir string
	// Socket, ConfDir and BinDir are paths of the CNI.
	Socket, ConfDir, BinDir string
	// Uplink says where links were moved from and to.
	Uplink Uplink
	// CutPods also takes the interfaces of pods that run.
	CutPods bool
	// Stay keeps the process when all is done, as a DaemonSet wants it.
	Stay bool
}

// ParseUninstall reads arguments behind "uninstall".
func ParseUninstall(args []string) (Uninstall, error) {
	var o Uninstall
	flags := flag.NewFlagSet("weft-agent uninstall", flag.ContinueOnError)
	hostFlags(flags, &o.OpenVSwitch, &o.Socket, &o.ConfDir, &o.BinDir)
	flags.StringVar(&o.SwitchDir, "ovs-run-dir", "/run/openvswitch", "run directory of ovs-vswitchd")
	o.Uplink.flags(flags)
	flags.BoolVar(&o.CutPods, "cut-pods", false, "also remove the interfaces of pods that run; otherwise they stop it before anything is removed")
	flags.BoolVar(&o.Stay, "stay", false, "do not end when all is removed, but wait for a signal")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	_, err := remotes("--ovs", o.OpenVSwitch)
	return o, err
}

// hostFlags are those of what the agent has on its host.
func hostFlags(flags *flag.FlagSet, ovs, socket, confDir, binDir *string) {
	flags.StringVar(ovs, "ovs", "unix:/run/openvswitch/db.sock", "OVSDB remote of the local Open_vSwitch database")
	flags.StringVar(socket, "cni-socket", "/run/weft/cni.sock", "socket of the CNI server")
	flags.StringVar(confDir, "cni-conf-dir", "/etc/cni/net.d", "directory of the runtime's network configurations")
	flags.StringVar(binDir, "cni-bin-dir", "/opt/cni/bin", "directory of the runtime's CNI plugins")
}

// ParseAgent reads arguments without the program's name; the environment gives the defaults.
func ParseAgent(args []string) (Agent, error) {
	var o Agent
	var southbound, controller string
	flags := flag.NewFlagSet("weft-agent", flag.ContinueOnError)
	flags.StringVar(&o.Node, "node-name", os.Getenv("NODE_NAME"), "name of this Node (environment NODE_NAME)")
	flags.StringVar(&southbound, "sb", os.Getenv("WEFT_SB"), "comma-separated OVSDB remotes of the OVN southbound database (environment WEFT_SB)")
	hostFlags(flags, &o.OpenVSwitch, &o.Socket, &o.ConfDir, &o.BinDir)
	o.Uplink.flags(flags)
	flags.StringVar(&controller, "ovn-remote", os.Getenv("WEFT_OVN_REMOTE"), "what ovn-controller is told of the southbound database, where that is another listener, with OVN's role (environment WEFT_OVN_REMOTE); empty: the same as --sb")
	o.TLS.flags(flags)
	flags.StringVar(&o.ControllerDir, "ovn-run-dir", "/run/ovn", "run directory of ovn-controller; empty: whether it runs is not watched")
	flags.StringVar(&o.SwitchDir, "ovs-run-dir", "/run/openvswitch", "run directory of ovs-vswitchd; empty: whether it runs is not watched")
	flags.StringVar(&o.CRISocket, "cri-socket", "", "socket of the container runtime's CRI service, such as /run/containerd/containerd.sock, to find interfaces whose sandbox is gone; empty: not asked")
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
	if o.Controller, err = remotes("--ovn-remote", cmp.Or(controller, southbound)); err != nil {
		return o, err
	}
	_, err = remotes("--ovs", o.OpenVSwitch)
	return o, err
}
