package uplink

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"

	"golang.org/x/sys/unix"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Snapshot is all of a link that a move touches.
type Snapshot struct {
	Link string `json:"link"`
	MAC  string `json:"mac"`
	// MTU in bytes.
	MTU int `json:"mtu"`
	// AddrGenMode is how the kernel makes link-local addresses (IN6_ADDR_GEN_MODE_* of linux/if_link.h).
	AddrGenMode int `json:"addrGenMode"`
	// Sysctls are those of net.ipv4.conf and net.ipv6.conf for the link that matter: "ipv6/accept_ra" -> "1".
	Sysctls map[string]string `json:"sysctls"`
	// Features are the offloads that would spoil what the userspace datapath reads: name as ethtool gives it -> whether it is on.
	Features map[string]bool `json:"features,omitempty"`
	Layer3
	// Rules name the link.
	Rules []Message `json:"rules,omitempty"`
}

// Layer3 is what a link carries above its frames.
type Layer3 struct {
	// Addresses are in the kernel's order: of a subnet's, the first is the primary one.
	Addresses []Message `json:"addresses"`
	// Routes are those of all tables but local.
	Routes []Message `json:"routes"`
	// Neighbors are the permanent ones.
	Neighbors []Message `json:"neighbors,omitempty"`
}

// Target is where a link goes.
type Target struct {
	Bridge   string                       `json:"bridge"`
	Datapath networkv1alpha1.DatapathType `json:"datapath"`
	Uplink   networkv1alpha1.UplinkType   `json:"uplink"`
}

// Step says how one thing shall be. Doing it again changes nothing.
type Step interface{ String() string }

type (
	// Rows are those in Open vSwitch: none, the bridge alone, or the bridge with the link as a port.
	Rows struct {
		Bridge   string
		Present  bool
		Datapath networkv1alpha1.DatapathType
		MAC      string
		MTU      int
		Port     string // empty: not yet
	}
	// Features switches offloads on and off.
	Features struct {
		Link string
		On   map[string]bool
	}
	// Guarded hides a link's frames from the host's stack, or ends that.
	Guarded struct {
		Link string
		On   bool
	}
	// Settings of a link; it is brought up at last.
	Settings struct {
		Link        string
		MTU         int // 0: as it is
		AddrGenMode int
		Sysctls     map[string]string
		Up          bool
	}
	// Carries gives a link its addresses, routes and neighbours, and takes all others.
	Carries struct {
		Link string
		Layer3
	}
	// RuleCopies are the rules that name another link, for this one.
	RuleCopies struct {
		Link    string
		Rules   []Message
		Present bool
	}
)

func (s Rows) String() string {
	switch {
	case !s.Present:
		return "no bridge " + s.Bridge
	case s.Port == "":
		return "bridge " + s.Bridge
	}
	return fmt.Sprintf("%s is a port of %s", s.Port, s.Bridge)
}
func (s Features) String() string { return "offloads of " + s.Link }
func (s Guarded) String() string  { return fmt.Sprintf("guard of %s %t", s.Link, s.On) }
func (s Settings) String() string { return "settings of " + s.Link }
func (s Carries) String() string {
	return fmt.Sprintf("%s carries %d addresses", s.Link, len(s.Addresses))
}
func (s RuleCopies) String() string { return fmt.Sprintf("rules of %s %t", s.Link, s.Present) }

// addrGenNone is IN6_ADDR_GEN_MODE_NONE: the kernel adds no link-local address, which would be detected for a second first.
const addrGenNone = 1

// disableIPv6 keeps also what the kernel would add by itself off a link that shall carry nothing.
const disableIPv6 = "ipv6/disable_ipv6"

// BridgeName is the name of the bridge of a link: "br" before the link's, and for a long one its first letters and a hash.
func BridgeName(link string) string {
	if name := "br" + link; len(name) < unix.IFNAMSIZ {
		return name
	}
	sum := sha256.Sum256([]byte(link))
	return "br" + link[:8] + hex.EncodeToString(sum[:])[:5]
}

// Move is the way of a link onto its bridge. What can be prepared comes first: from the sixth step (with the kernel's datapath from the
// fourth) to the eighth the node does not answer, which is some milliseconds.
func Move(s Snapshot, to Target) []Step {
	bridge := Rows{Bridge: to.Bridge, Present: true, Datapath: to.Datapath, MAC: s.MAC, MTU: s.MTU}
	withPort := bridge
	withPort.Port = s.Link
	userspace := to.Datapath == networkv1alpha1.DatapathNetdev
	var steps []Step
	if userspace {
		steps = append(steps, Features{s.Link, allOff(s.Features)})
	}
	steps = append(steps, bridge)
	if to.Uplink == networkv1alpha1.UplinkInterface {
		steps = append(steps, Settings{Link: to.Bridge, AddrGenMode: addrGenNone, Sysctls: map[string]string{disableIPv6: "1"}})
	} else {
		steps = append(steps, Settings{Link: to.Bridge, MTU: s.MTU, AddrGenMode: addrGenNone, Sysctls: s.Sysctls, Up: true})
	}
	steps = append(steps, withPort)
	if userspace {
		steps = append(steps, Guarded{s.Link, true})
	}
	steps = append(steps,
		Settings{Link: s.Link, AddrGenMode: s.AddrGenMode, Sysctls: with(s.Sysctls, disableIPv6, "1"), Up: true},
		Carries{Link: s.Link})
	if to.Uplink == networkv1alpha1.UplinkInterface {
		return steps
	}
	return append(steps, Carries{to.Bridge, s.Layer3}, RuleCopies{to.Bridge, s.Rules, true},
		Settings{Link: to.Bridge, MTU: s.MTU, AddrGenMode: s.AddrGenMode, Sysctls: s.Sysctls, Up: true})
}

// Undo brings the link back to the snapshot from any point of a move or of an undoing. In another boot than the snapshot's nothing of the
// link is ours: only what is in Open vSwitch goes.
func Undo(s Snapshot, from Target, sameBoot bool) []Step {
	steps := []Step{Rows{Bridge: from.Bridge}, RuleCopies{from.Bridge, s.Rules, false}}
	if from.Datapath == networkv1alpha1.DatapathNetdev {
		steps = append(steps, Guarded{s.Link, false})
	}
	if !sameBoot {
		return steps
	}
	return append(steps,
		Settings{Link: s.Link, MTU: s.MTU, AddrGenMode: addrGenNone, Sysctls: s.Sysctls, Up: true},
		Carries{s.Link, s.Layer3},
		Settings{Link: s.Link, MTU: s.MTU, AddrGenMode: s.AddrGenMode, Sysctls: s.Sysctls, Up: true},
		Features{s.Link, s.Features})
}

// refill gives a bridge that was made anew what the link had.
func refill(s Snapshot, to Target) []Step {
	return []Step{
		Settings{Link: to.Bridge, MTU: s.MTU, AddrGenMode: addrGenNone, Sysctls: s.Sysctls, Up: true},
		Carries{to.Bridge, s.Layer3},
		RuleCopies{to.Bridge, s.Rules, true},
		Settings{Link: to.Bridge, MTU: s.MTU, AddrGenMode: s.AddrGenMode, Sysctls: s.Sysctls, Up: true},
	}
}

func allOff(features map[string]bool) map[string]bool {
	off := map[string]bool{}
	for name := range features {
		off[name] = false
	}
	return off
}

func with(sysctls map[string]string, key, value string) map[string]string {
	if _, ok := sysctls[key]; !ok { // a host without IPv6
		return sysctls
	}
	changed := maps.Clone(sysctls)
	changed[key] = value
	return changed
}
