package trace

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/unit"
)

// Request is what "weft-ovn trace" reads from standard input, in JSON.
type Request struct {
	Packets []Packet `json:"packets,omitempty"`
	// Ports are logical ports whose state the answer contains.
	Ports []string `json:"ports,omitempty"`
	// Changes are operations on the northbound database, in OVSDB's wire format. If there are any, the packets are
	// traced in a private copy of the databases to which they were applied.
	Changes []json.RawMessage `json:"changes,omitempty"`
	// Northd requests the state of the ovn-northd beside the databases.
	Northd bool `json:"northd,omitempty"`
}

// Packet is the first packet of a connection, or of its reply, where it enters OVN.
type Packet struct {
	// Node is the node at which the packet enters, and Zone its zone, in whose databases the packet is traced.
	Node string                   `json:"-"`
	Zone networkv1alpha1.ZoneName `json:"-"`
	// Chassis is the chassis whose template variables complete the flows.
	Chassis string `json:"chassis,omitempty"`
	// Inport is the logical port by which the packet enters.
	Inport string `json:"inport"`
	// From and To are the ports whose MACs the packet has. An empty From stands for a MAC outside the cluster.
	From string `json:"from,omitempty"`
	To   string `json:"to"`
	// SourceMAC, DestinationMAC and TTL are set for a packet that comes from another zone. Then no port gives the packet its MACs.
	SourceMAC      string `json:"sourceMAC,omitempty"`
	DestinationMAC string `json:"destinationMAC,omitempty"`
	TTL            int    `json:"ttl,omitempty"`

	Protocol        Protocol   `json:"protocol"`
	Source          netip.Addr `json:"source"`
	Destination     netip.Addr `json:"destination"`
	SourcePort      uint16     `json:"sourcePort,omitempty"`
	DestinationPort uint16     `json:"destinationPort,omitempty"`

	// Backend is the backend that load balancers choose, if they have it.
	Backend string `json:"backend,omitempty"`
	// Reply means that the packet belongs to a connection that the other side has opened. Restore is the address that
	// conntrack of a gateway router restores as its destination.
	Reply   bool       `json:"reply,omitempty"`
	Restore netip.Addr `json:"restore,omitzero"`
	// Hairpin means that the backend is the sender itself.
	Hairpin bool `json:"hairpin,omitempty"`
	// Watches is the port of the gateway router whose BFD sessions the answer contains, or empty.
	Watches string `json:"watches,omitempty"`
}

// Protocol is a protocol in OVN's spelling.
type Protocol string

// The protocols that a trace can be about.
const (
	TCP  Protocol = "tcp"
	UDP  Protocol = "udp"
	SCTP Protocol = "sctp"
	ICMP Protocol = "icmp"
)

// Text is the protocol as Kubernetes writes it.
func (p Protocol) Text() string { return strings.ToUpper(string(p)) }

// firstTTL is the TTL of a packet that no router has passed on.
const firstTTL = 64

// Continued reports whether the packet comes from another zone.
func (p Packet) Continued() bool { return p.TTL != 0 }

// Microflow describes the packet for ovn-trace. from and to are the MACs of its ports.
func (p Packet) Microflow(from, to string) string {
	family := "ip4"
	if p.Source.Is6() {
		family = "ip6"
	}
	ttl := firstTTL
	if p.Continued() {
		from, to, ttl = p.SourceMAC, p.DestinationMAC, p.TTL
	}
	flow := fmt.Sprintf("inport == %q && eth.src == %s && eth.dst == %s && %s.src == %s && %s.dst == %s && ip.ttl == %d",
		p.Inport, from, to, family, p.Source, family, p.Destination, ttl)
	if p.Protocol != ICMP {
		return flow + fmt.Sprintf(" && %[1]s.src == %[2]d && %[1]s.dst == %[3]d", p.Protocol, p.SourcePort, p.DestinationPort)
	}
	kind := map[bool]map[string]int{false: {"ip4": 8, "ip6": 128}, true: {"ip4": 0, "ip6": 129}}[p.Reply][family]
	return flow + fmt.Sprintf(" && icmp%[1]s.type == %[2]d && icmp%[1]s.code == 0", family[len("ip"):], kind)
}

// Answer is the output of "weft-ovn trace", in JSON.
type Answer struct {
	// Traces has an element for each packet.
	Traces []Traced `json:"traces"`
	// Ports are the states of the ports of the request, by name.
	Ports map[string]PortState `json:"ports,omitempty"`
	// Northd is the state of ovn-northd, if it was requested. Older versions of Weft leave it out.
	Northd *NorthdState `json:"northd,omitempty"`
}

// NorthdState is what an ovn-northd says about itself.
type NorthdState struct {
	// Status is active, standby or paused, in ovn-northd's own words. It is empty if ovn-northd did not respond.
	Status string `json:"status,omitempty"`
	// Behind is how many requests for a confirmation (NB_Global.nb_cfg) ovn-northd has not confirmed yet.
	Behind int64 `json:"behind,omitempty"`
	// Why says why Status is empty.
	Why string `json:"why,omitempty"`
}

// Stale returns why the flows may be older than the northbound database, or "" if nothing says so. The states are of
// all members of the databases, of which one is active.
func Stale(states []NorthdState) string {
	var reasons []string
	for _, s := range states {
		switch {
		case s.Status == "active" && s.Behind > 0:
			return fmt.Sprintf("ovn-northd has not computed the last changes yet (%d requests behind)", s.Behind)
		case s.Status == "active":
			return ""
		case s.Status == "":
			reasons = append(reasons, "ovn-northd does not respond ("+s.Why+")")
		default:
			reasons = append(reasons, "ovn-northd is "+s.Status)
		}
	}
	slices.Sort(reasons)
	return strings.Join(slices.Compact(reasons), "; ")
}

// PortState is which databases and programs have processed a logical port.
type PortState struct {
	// Northbound and Southbound report whether the databases have the port. The operator writes the first, ovn-northd
	// copies it to the second.
	Northbound bool `json:"northbound"`
	Southbound bool `json:"southbound"`
	// Claimed means that ovn-controller has claimed the port for its chassis, and Up that its flows are installed.
	Claimed bool `json:"claimed"`
	Up      bool `json:"up"`
}

// Traced is what OVN does with a packet.
type Traced struct {
	// Text is the output of ovn-trace.
	Text string `json:"text,omitempty"`
	// Rows are the northbound rows behind the flows, by the start of the flow's UUID.
	Rows map[string]Row `json:"rows,omitempty"`
	// Unresolved means that OVN does not know the MAC of a next hop yet, and would resolve it first. Text then assumes
	// that it did.
	Unresolved bool `json:"unresolved,omitempty"`
	// Missing are the packet's ports that the southbound database does not have. Then nothing was traced.
	Missing []string `json:"missing,omitempty"`
	// Silent are the routers outside that do not answer BFD on the port that the packet watches.
	Silent []netip.Addr `json:"silent,omitempty"`
	// Unknown says why the databases of the packet's zone cannot be read. Then nothing was traced.
	Unknown string `json:"-"`
}

// Row is a row of the northbound database.
type Row struct {
	Table string `json:"table"`
	Name  string `json:"name,omitempty"`
	// Owner is the unit of a row of Weft. It is empty for rows of others.
	Owner unit.Key `json:"owner,omitempty"`
	// Rule is the position or text of the rule of an ACL.
	Rule string `json:"rule,omitempty"`
	// Also are the other policies that isolate the same pod in the same direction.
	Also []unit.Key `json:"also,omitempty"`
}

// WaitsFor returns the stage of a pod's start that the port waits for, and the component that completes it.
func (p PortState) WaitsFor() (stage, component string) {
	switch {
	case !p.Northbound:
		return "address", "the operator"
	case !p.Southbound:
		return "address", "ovn-northd"
	case !p.Claimed:
		return "binding", "ovn-controller"
	case !p.Up:
		return "flows", "ovn-controller"
	}
	return "sandbox", "the container runtime"
}
