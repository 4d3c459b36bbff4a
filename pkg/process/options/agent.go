package options

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/weft-network/weft/pkg/ports"
)

// Agent is the agent's command line.
type Agent struct {
	// Node is the name of the Node that this process runs on.
	Node string
	// Southbound are the OVSDB remotes of the southbound database, at least one. OpenVSwitch is the remote of the
	// local database.
	Southbound  []string
	OpenVSwitch string
	// Controller are the remotes of the southbound database for ovn-controller.
	Controller []string
	// TLS is for "ssl:" remotes in Southbound.
	TLS TLS
	// Socket, ConfDir, BinDir and BinSource are paths of the CNI: see agent.Options.
	Socket, ConfDir, BinDir, BinSource string
	// CRISocket is the container runtime's socket. If it is empty, the runtime's sandboxes are not compared.
	CRISocket string
	// Root is where the node's file system is mounted. Delegates lets pods attach networks that other plugins serve.
	Root string
	// PodResources is the socket of kubelet's service of that name, in the node's file system; empty: it is not read.
	PodResources string
	Delegates    bool
	// IKESocket and Identity are described at their flags.
	IKESocket, Identity string
	// ControllerDir is ovn-controller's run directory, SwitchDir ovs-vswitchd's.
	ControllerDir, SwitchDir string
	// Uplink configures the moves of links.
	Uplink Uplink
	// Health, ProxyHealth and Metrics are listen addresses. "0" switches ProxyHealth or Metrics off.
	Health, ProxyHealth, Metrics string
	Log                          Log
}

// Uninstall is the command line of "weft-agent uninstall".
type Uninstall struct {
	// OpenVSwitch is the OVSDB remote of the local database.
	OpenVSwitch string
	// SwitchDir is ovs-vswitchd's run directory.
	SwitchDir string
	// Socket, ConfDir and BinDir are paths of the CNI.
	Socket, ConfDir, BinDir string
	// Uplink configures how links were moved.
	Uplink Uplink
	// CutPods also removes the interfaces of running pods.
	CutPods bool
	// Stay keeps the process running at the end, as a DaemonSet requires.
	Stay bool
}

// ParseUninstall parses the arguments after "uninstall".
func ParseUninstall(args []string) (Uninstall, error) {
	var o Uninstall
	flags := flag.NewFlagSet("weft-agent uninstall", flag.ContinueOnError)
	hostFlags(flags, &o.OpenVSwitch, &o.Socket, &o.ConfDir, &o.BinDir)
	flags.StringVar(&o.SwitchDir, "ovs-run-dir", "/run/openvswitch", "run directory of ovs-vswitchd")
	o.Uplink.flags(flags)
	flags.BoolVar(&o.CutPods, "cut-pods", false,
		"also remove the interfaces of running pods; without it, running pods stop the removal before it begins")
	flags.BoolVar(&o.Stay, "stay", false, "at the end wait for a signal instead of exiting")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	_, err := remotes("--ovs", o.OpenVSwitch)
	return o, err
}

// hostFlags adds the flags for the agent's files and sockets on its host.
func hostFlags(flags *flag.FlagSet, ovs, socket, confDir, binDir *string) {
	flags.StringVar(ovs, "ovs", "unix:/run/openvswitch/db.sock", "OVSDB remote of the local Open_vSwitch database")
	flags.StringVar(socket, "cni-socket", "/run/weft/cni.sock", "socket of the CNI server")
	flags.StringVar(confDir, "cni-conf-dir", "/etc/cni/net.d", "directory of the runtime's network configurations")
	flags.StringVar(binDir, "cni-bin-dir", "/opt/cni/bin", "directory of the runtime's CNI plugins")
}

// ParseAgent parses arguments without the program's name. The environment provides the defaults.
func ParseAgent(args []string) (Agent, error) {
	var o Agent
	var southbound, controller string
	flags := flag.NewFlagSet("weft-agent", flag.ContinueOnError)
	o.Log.flags(flags)
	flags.StringVar(&o.Node, "node-name", os.Getenv("NODE_NAME"), "name of this Node (environment NODE_NAME)")
	flags.StringVar(&southbound, "sb", os.Getenv("WEFT_SB"),
		"comma-separated OVSDB remotes of the OVN southbound database (environment WEFT_SB)")
	hostFlags(flags, &o.OpenVSwitch, &o.Socket, &o.ConfDir, &o.BinDir)
	o.Uplink.flags(flags)
	flags.StringVar(&controller, "ovn-remote", os.Getenv("WEFT_OVN_REMOTE"),
		"OVSDB remotes of the southbound database for ovn-controller, if it uses another listener, with OVN's role "+
			"(environment WEFT_OVN_REMOTE); empty: the same as --sb")
	o.TLS.flags(flags)
	flags.StringVar(&o.ControllerDir, "ovn-run-dir", "/run/ovn", "run directory of ovn-controller; empty: do not watch whether it runs")
	flags.StringVar(&o.SwitchDir, "ovs-run-dir", "/run/openvswitch",
		"run directory of ovs-vswitchd; empty: do not watch whether it runs")
	flags.StringVar(&o.IKESocket, "ike-socket", "/run/weft/ipsec/charon.vici", "vici socket of strongSwan's IKE daemon, for encryption")
	flags.StringVar(&o.Identity, "chassis-pair", "/run/weft/identity/chassis-current.pem",
		"file with the certificate and the key of the chassis, for encryption")
	flags.StringVar(&o.CRISocket, "cri-socket", "",
		"socket of the container runtime's CRI service, such as /run/containerd/containerd.sock, to find "+
			"interfaces without a sandbox; empty: do not query the runtime")
	flags.BoolVar(&o.Delegates, "delegates", true, "let pods attach networks that other CNI plugins of the node serve")
	flags.StringVar(&o.Root, "host-root", "",
		"where the node's file system is mounted, in which other CNI plugins run; empty: they run in the agent's own")
	flags.StringVar(&o.PodResources, "pod-resources", "/var/lib/kubelet/pod-resources/kubelet.sock",
		"socket of kubelet's PodResources service, for definitions that name a resource of a device plugin; empty: refuse them")
	flags.StringVar(&o.BinSource, "cni-bin-source", "/opt/weft/cni", "directory of the plugins to install")
	flags.StringVar(&o.Health, "health-probe-bind-address", ports.Any(ports.AgentHealth), "address of /healthz and /readyz")
	flags.StringVar(&o.ProxyHealth, "proxy-health-bind-address", ports.Any(ports.ProxyHealth),
		"address of /healthz and /livez for load balancers that probe nodes, as of kube-proxy; 0 for none")
	flags.StringVar(&o.Metrics, "metrics-bind-address", ports.Any(ports.AgentMetrics), "address of /metrics; 0 for none")
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
