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
	// Version is the agent's own.
	Version string
	// Southbound and OpenVSwitch are OVSDB remotes.
	Southbound  []string
	OpenVSwitch string
	// Controller are the remotes of the southbound database that ovn-controller is told; nil: those of Southbound.
	Controller []string
	// TLS is for those of Southbound that are "ssl:".
	TLS ovndb.TLS
	// Socket is where the CNI server listens; ConfDir and BinDir are the runtime's, BinSource has the plugins to install.
	Socket, ConfDir, BinDir, BinSource string
	// ControllerDir is ovn-controller's run directory; empty: whether it runs is not watched.
	ControllerDir string
	// SwitchDir is ovs-vswitchd's run directory; empty: whether it runs is not watched.
	SwitchDir string
	Observer  ovndb.Observer
	// Mover moves the link that leads outside onto a bridge; nil: it is left where it is. APIServer is where this process finds it, to
	// see whether it still answers then; the zero value for one that has no address.
	Mover     *uplink.Mover
	APIServer netip.AddrPort
	// Sandboxes lists the container runtime's sandboxes by ID, those that ended included; nil: they are not compared.
	Sandboxes func(context.Context) (map[string]bool, error)
	// ListDelay is how old an attachment must be before a list without it counts; 0 is 2 minutes.
	ListDelay time.Duration
	// ObserveCollected is told of each attachment that was removed without a DEL, and why; nil: nobody is.
	ObserveCollected func(reason string)
	// ObserveStage is told how long each stage of an ADD took that succeeded, ObserveStageFailed of the stage at which another ended;
	// nil: nobody is.
	ObserveStage       func(stage string, took time.Duration)
	ObserveStageFailed func(stage string)
	// Passed is told at once of each point that a request passes, "ADD link" or "DEL record"; tests end the agent there. nil: nobody is.
	Passed func(point string)
	// CheckInterval is how often the agent checks the interfaces of pods by itself; 0 is 5 minutes. ObserveFailing is told how many of them
	// are not as they were made; nil: nobody is.
	CheckInterval  time.Duration
	ObserveFailing func(interfaces int)
	// StatusGrace is how long ovn-controller and the southbound database may be away until STATUS tells; 0 is 15 s.
	StatusGrace time.Duration
	// RequestTimeout bounds a CNI request; 0 is 60 s.
	RequestTimeout time.Duration
	// ObserveRequest is told of each CNI request that was answered; nil: nobody is.
	ObserveRequest func(command string, elapsed time.Duration, err error)
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
	if o.Passed == nil {
		o.Passed = func(string) {}
	}
	if o.ObserveFailing == nil {
		o.ObserveFailing = func(int) {}
	}
	if o.ObserveCollected == nil {
		o.ObserveCollected = func(string) {}
	}
	return o
}
