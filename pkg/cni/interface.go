// Package cni makes and removes the links of pods: a veth pair whose one end is
// the pod's interface and whose other end is a port of the integration bridge.
//
//	pod netns                        host netns
//	┌───────────────┐              ┌─────────────────────────┐
//	│ eth0          ├─── veth ─────┤ weft0123456789 ─ br-int │
//	│ MAC, IPs, MTU │              │ alias weft:<id>/<ifname>│
//	└───────────────┘              └─────────────────────────┘
//
// Both ends are created where they live and with the names they keep: moving or
// renaming a link waits for an RCU grace period under the RTNL lock.
package cni

import (
	"net"
	"net/netip"
)

// PodInterface is an interface that a pod shall have.
type PodInterface struct {
	ContainerID string // the sandbox
	NetNS       string // path of its network namespace
	IfName      string // name in the pod, usually eth0
	HostName    string // name of the host's end; empty: HostName(ContainerID, IfName)

	MAC       net.HardwareAddr
	Addresses []netip.Prefix // each with the prefix length of its subnet
	Gateways  []netip.Addr   // default routes, at most one per family
	Routes    []Route
	MTU       int // bytes; 0: the kernel's default

	// DisableTxOffload makes the pod's kernel write checksums itself. The
	// userspace datapath of Open vSwitch needs it: it does not complete them.
	DisableTxOffload bool
	// IngressGuard hides the frames of the host's end from the host's own
	// stack. The userspace datapath needs it: it reads copies of the frames.
	// Never with the kernel datapath, which would not see them either.
	IngressGuard bool
}

// Route is a further route of the pod. Without a gateway it is on the link.
type Route struct {
	Dst     netip.Prefix
	Gateway netip.Addr
}

// Attachment is a PodInterface as it was made.
type Attachment struct {
	HostName  string
	HostIndex int
	HostMAC   net.HardwareAddr
	PodIndex  int
	MAC       net.HardwareAddr
}

// HostLink is the host's end of a pod's interface, as List finds it.
type HostLink struct {
	Name        string
	Index       int
	ContainerID string // empty for a link that was left half made
	IfName      string
}

// Attach makes the interface, after removing what an earlier attempt for the
// same container and interface left. If it fails nothing remains. A namespace
// that is none, or the host's own, gives a *cniwire.Error.
func Attach(want PodInterface) (Attachment, error) { panic("not yet") }

// Detach removes the interface; that there is none is no error. The pod's
// namespace may be gone.
func Detach(containerID, ifName string) error { panic("not yet") }

// List returns the host's ends of all interfaces that Attach made.
func List() ([]HostLink, error) { panic("not yet") }

// HostName is the name of the host's end of a container's interface.
func HostName(containerID, ifName string) string { panic("not yet") }

// Guard hides a device's frames from the host's stack; twice is as once.
func Guard(device string) error { panic("not yet") }

// SweepGuards removes the guards of devices that are gone.
func SweepGuards() error { panic("not yet") }
