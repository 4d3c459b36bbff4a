package uplink

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"

	"golang.org/x/sys/unix"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Snapshot is the state of a link that a move changes.
type Snapshot struct {
	Link string `json:"link"`
	MAC  string `json:"mac"`
	// MTU is in bytes.
	MTU int `json:"mtu"`
	// Down reports whether the link was down.
	Down bool `json:"down,omitempty"`
	// Promiscuous reports whether the host had switched the promiscuous mode on.
	Promiscuous bool `json:"promiscuous,omitempty"`
	// AddrGenMode selects how the kernel makes link-local addresses (IN6_ADDR_GEN_MODE_* of linux/if_link.h).
	AddrGenMode int `json:"addrGenMode"`
	// Sysctls are the link's relevant settings in net.ipv4.conf and net.ipv6.conf, such as "ipv6/accept_ra" -> "1".
	Sysctls map[string]string `json:"sysctls"`
	// Features are the offloads that would corrupt the frames that the userspace datapath reads. The keys are ethtool's
	// names. The values report whether the offload is on.
	Features map[string]bool `json:"features,omitempty"`
	Layer3
	// Rules are the routing rules that name the link.
	Rules []Message `json:"rules,omitempty"`
}

// Layer3 is the layer 3 configuration of a link.
type Layer3 struct {
	// Addresses are in the kernel's order: the first address of a subnet is its primary address.
	Addresses []Message `json:"addresses"`
	// Routes are the routes of all tables except local.
	Routes []Message `json:"routes"`
	// Neighbors are the permanent neighbour entries.
	Neighbors []Message `json:"neighbors,omitempty"`
}

// Target is the bridge that a link moves to.
type Target struct {
	Bridge   string                       `json:"bridge"`
	Datapath networkv1alpha1.DatapathType `json:"datapath"`
	Uplink   networkv1alpha1.UplinkType   `json:"uplink"`
	// Physical reports whether the bridge leads to a physical network and not to the gateway's network.
	Physical bool `json:"physical,omitempty"`
}

// Step describes the state of one thing. Applying a step again changes nothing.
type Step interface{ String() string }

type (
	// Rows is the state of the rows in Open vSwitch: no bridge, a bridge without the link, or a bridge with the link as
	// a port.
	Rows struct {
		Bridge   string
		Present  bool
		Datapath networkv1alpha1.DatapathType
		MAC      string
		MTU      int
		Port     string // empty: the link is not a port yet
	}
	// Features switches offloads on and off.
	Features struct {
		Link string
		On   map[string]bool
	}
	// Guarded hides a link's frames from the host's network stack, or shows them again.
	Guarded struct {
		Link string
		On   bool
	}
	// Settings are the settings of a link. If Up or Down is set, the link comes up or goes down after all others are
	// applied.
	Settings struct {
		Link        string
		MTU         int // 0: unchanged
		AddrGenMode int
		Sysctls     map[string]string
		Up, Down    bool
	}
	// Promiscuous switches a link's promiscuous mode on or off. It says nothing of what the kernel's datapath holds.
	Promiscuous struct {
		Link string
		On   bool
	}
	// Carries gives a link these addresses, routes and neighbours, and removes all others.
	Carries struct {
		Link string
		Layer3
	}
	// RuleCopies are the rules that name another link, copied for this link.
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
func (s Promiscuous) String() string {
	return fmt.Sprintf("promiscuous mode of %s %t", s.Link, s.On)
}
func (s Carries) String() string {
	return fmt.Sprintf("%s carries %d addresses", s.Link, len(s.Addresses))
}
func (s RuleCopies) String() string { return fmt.Sprintf("rules of %s %t", s.Link, s.Present) }

// addrGenNone is IN6_ADDR_GEN_MODE_NONE. In this mode the kernel adds no link-local address, whose duplicate detection
// would take a second.
const addrGenNone = 1

// disableIPv6 is the setting that keeps the kernel from adding addresses to a link that must carry nothing.
const disableIPv6 = "ipv6/disable_ipv6"

// BridgeName returns the name of a link's bridge: "br" and the link's name. For a long name it is "br", the first
// letters of the name and a hash.
func BridgeName(link string) string {
	if name := "br" + link; len(name) < unix.IFNAMSIZ {
		return name
	}
	sum := sha256.Sum256([]byte(link))
	return "br" + link[:8] + hex.EncodeToString(sum[:])[:5]
}

// Move returns the steps that move a link onto its bridge. Preparations come first. The node is unreachable for some
// milliseconds, from the sixth step (with the kernel's datapath from the fourth) to the eighth.
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
	steps = append(steps, bare(s, to)...)
	if to.Uplink == networkv1alpha1.UplinkInterface {
		return steps
	}
	return append(steps, Carries{to.Bridge, s.Layer3}, RuleCopies{to.Bridge, s.Rules, true},
		Settings{Link: to.Bridge, MTU: s.MTU, AddrGenMode: s.AddrGenMode, Sysctls: s.Sysctls, Up: true})
}

// bare returns the steps after which a link carries nothing.
func bare(s Snapshot, to Target) (steps []Step) {
	if to.Datapath == networkv1alpha1.DatapathNetdev {
		steps = append(steps, Guarded{s.Link, true})
	}
	return append(steps, Settings{Link: s.Link, AddrGenMode: s.AddrGenMode, Sysctls: with(s.Sysctls, disableIPv6, "1"), Up: true},
		Carries{Link: s.Link})
}

// Undo returns the steps that restore the snapshot from any point of a move or of an undoing. After a reboot nothing on
// the link is Weft's, so that Undo restores only Open vSwitch, the rules and the guard.
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
		Settings{Link: s.Link, MTU: s.MTU, AddrGenMode: s.AddrGenMode, Sysctls: s.Sysctls, Up: !s.Down, Down: s.Down},
		// ovs-vswitchd takes the mode back only if it has set it since its own start
		Promiscuous{s.Link, s.Promiscuous},
		Features{s.Link, s.Features})
}

// refill gives a recreated bridge the state that the link had. The link has that state itself if a ledger could not be written.
func refill(s Snapshot, to Target) []Step {
	return append(bare(s, to),
		Settings{Link: to.Bridge, MTU: s.MTU, AddrGenMode: addrGenNone, Sysctls: s.Sysctls, Up: true},
		Carries{to.Bridge, s.Layer3},
		RuleCopies{to.Bridge, s.Rules, true},
		Settings{Link: to.Bridge, MTU: s.MTU, AddrGenMode: s.AddrGenMode, Sysctls: s.Sysctls, Up: true})
}

func allOff(features map[string]bool) map[string]bool {
	off := map[string]bool{}
	for name := range features {
		off[name] = false
	}
	return off
}

func with(sysctls map[string]string, key, value string) map[string]string {
	if _, ok := sysctls[key]; !ok { // the host has no IPv6
		return sysctls
	}
	changed := maps.Clone(sysctls)
	changed[key] = value
	return changed
}
