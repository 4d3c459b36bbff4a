package agent

import (
	"context"
	"net/netip"
	"time"

	"github.com/weft-network/weft/pkg/agent/uplink"
	"github.com/weft-network/weft/pkg/ovndb"
)

// Options configure an agent.
type Options struct {
	Node string
	// Version is this build's version.
	Version string
	// Southbound and OpenVSwitch are OVSDB remotes.
	Southbound  []string
	OpenVSwitch string
	// Controller lists the southbound remotes that ovn-controller uses. Nil means Southbound.
	Controller []string
	// TLS applies to the "ssl:" remotes in Southbound.
	TLS ovndb.TLS
	// Socket is the path at which the CNI server listens. ConfDir and BinDir are the runtime's CNI directories.
	// BinSource is the directory of the plugins to install.
	Socket, ConfDir, BinDir, BinSource string
	// State is the agent's folder of what survives a reboot. Delegates lets pods attach networks that other plugins serve. Root is the node's
	// file system, in which those plugins run; empty: the agent's own.
	State     string
	Delegates bool
	Root      string
	// PodResources is the socket of kubelet's service of that name, below Root; empty: no device is given to a plugin.
	PodResources string
	// ControllerDir is ovn-controller's run directory. If empty, the agent does not watch ovn-controller.
	ControllerDir string
	// SwitchDir is ovs-vswitchd's run directory. If empty, the agent does not watch ovs-vswitchd.
	SwitchDir string
	Observer  ovndb.Observer
	// Mover moves the link that leads outside onto a bridge. If nil, the link stays where it is. APIServer is the
	// address at which this process reaches the API server, which the mover checks after a move. The zero value means
	// that the address is unknown.
	Mover     *uplink.Mover
	APIServer netip.AddrPort
	// IKESocket is the vici socket of the node's IKE daemon. Identity is the file with the chassis' certificate and key. TLS has the
	// authorities of other chassis.
	IKESocket, Identity string
	// Passwords is the folder with the passwords of BGPPeers. The default is /etc/weft/bgp.
	Passwords string
	// Listeners are the addresses at which this process serves, such as ":9442". Their ports are reserved: no service
	// may use them.
	Listeners []string
	// ProxyHealth is the address at which the node's health is served to load balancers, as kube-proxy does; "0" or empty: not.
	ProxyHealth string
	// ObserveProgrammed, if set, receives how long a change of a service's endpoints took until the host had it. ObserveSynced, if
	// set, receives when the host last had all changes.
	ObserveProgrammed func(time.Duration)
	ObserveSynced     func(time.Time)
	// Sandboxes lists the container runtime's sandboxes by ID, including ended ones. If nil, the agent does not compare
	// its attachments with them.
	Sandboxes func(context.Context) (map[string]bool, error)
	// ListDelay is the minimum age of an attachment before its absence from a list of sandboxes counts. The default is 2
	// minutes.
	ListDelay time.Duration
	// ObserveCollected, if set, receives the reason for each attachment that was removed without a DEL.
	ObserveCollected func(reason string)
	// ObserveStage, if set, receives the duration of each stage of an ADD that succeeded. ObserveStageFailed, if set,
	// receives the stage at which an ADD failed.
	ObserveStage       func(stage string, took time.Duration)
	ObserveStageFailed func(stage string)
	// CheckInterval is the time between the agent's checks of the pods' interfaces. The default is 5 minutes.
	// ObserveFailing, if set, receives the number of interfaces that differ from what the agent made.
	CheckInterval  time.Duration
	ObserveFailing func(interfaces int)
	// ObserveRepair, if set, receives the kind of each object of the node's state that another program had changed.
	ObserveRepair func(kind string)
	// StatusGrace is how long ovn-controller and the southbound database may be disconnected before STATUS reports it.
	// The default is 15 s.
	StatusGrace time.Duration
	// RequestTimeout limits the duration of a CNI request. The default is 60 s.
	RequestTimeout time.Duration
	// ObserveRequest, if set, receives each CNI request after it was answered.
	ObserveRequest func(command string, elapsed time.Duration, err error)

	// failpoint, if set, is attach.Options.Failpoint. Only tests set it.
	failpoint func(point string)
}

func (o Options) withObservers() Options {
	if o.Controller == nil {
		o.Controller = o.Southbound
	}
	if o.ObserveRequest == nil {
		o.ObserveRequest = func(string, time.Duration, error) {}
	}
	if o.ObserveStage == nil {
		o.ObserveStage = func(string, time.Duration) {}
	}
	if o.ObserveStageFailed == nil {
		o.ObserveStageFailed = func(string) {}
	}
	if o.failpoint == nil {
		o.failpoint = func(string) {}
	}
	if o.ObserveFailing == nil {
		o.ObserveFailing = func(int) {}
	}
	if o.ObserveRepair == nil {
		o.ObserveRepair = func(string) {}
	}
	if o.ObserveCollected == nil {
		o.ObserveCollected = func(string) {}
	}
	return o
}
