package ipsec

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ports"
)

// Peer is an end of a tunnel at another node. Chassis identifies the node, and Local is this node's end.
type Peer struct {
	Chassis        string
	Address, Local netip.Addr
}

// tunnelKey is the external_ids key of the ports that ovn-controller makes for tunnels: "<chassis>@<address>%<own address>".
const tunnelKey = "ovn-chassis-id"

// IsTunnel reports whether a port of Open vSwitch is a tunnel.
func IsTunnel(port *vswitchdb.Port) bool { return port.ExternalIDs[tunnelKey] != "" }

// PeersOf returns the tunnels among the ports of Open vSwitch, sorted. own is this node's address where a port has none.
func PeersOf(switchPorts []*vswitchdb.Port, own netip.Addr) (peers []Peer) {
	for _, port := range switchPorts {
		chassis, rest, ok := cutLast(port.ExternalIDs[tunnelKey], "@")
		if !ok {
			continue
		}
		far, near, _ := strings.Cut(rest, "%")
		peer := Peer{Chassis: chassis, Local: own}
		if local, err := netip.ParseAddr(near); err == nil {
			peer.Local = local
		}
		var err error
		if peer.Address, err = netip.ParseAddr(far); err == nil {
			peers = append(peers, peer)
		}
	}
	slices.SortFunc(peers, func(a, b Peer) int { return strings.Compare(a.name(), b.name()) })
	return slices.Compact(peers)
}

func cutLast(text, separator string) (before, after string, found bool) {
	if i := strings.LastIndex(text, separator); i >= 0 {
		return text[:i], text[i+len(separator):], true
	}
	return text, "", false
}

// namePrefix begins the names of connections. Others of the daemon are not Weft's.
const namePrefix = "weft-"

func (p Peer) name() string { return namePrefix + p.Local.String() + "-" + p.Address.String() }

// connection is a connection of vici's command load-conn.
type connection struct {
	Version     string           `vici:"version"`
	LocalAddrs  []string         `vici:"local_addrs"`
	RemoteAddrs []string         `vici:"remote_addrs"`
	Proposals   []string         `vici:"proposals"`
	Unique      string           `vici:"unique"`
	MOBIKE      string           `vici:"mobike"`
	DPDDelay    string           `vici:"dpd_delay"`
	Local       *end             `vici:"local"`
	Remote      *end             `vici:"remote"`
	Children    map[string]child `vici:"children"`
}

// end is how one side of a connection identifies itself.
type end struct {
	Auth string `vici:"auth"`
	ID   string `vici:"id"`
}

// child protects the packets of one direction.
type child struct {
	Mode         string   `vici:"mode"`
	LocalTS      []string `vici:"local_ts"`
	RemoteTS     []string `vici:"remote_ts"`
	ESPProposals []string `vici:"esp_proposals"`
	StartAction  string   `vici:"start_action"`
	DPDAction    string   `vici:"dpd_action"`
	CloseAction  string   `vici:"close_action"`
}

// The suites have authenticated encryption and forward secrecy, and every kernel of the last ten years has them.
var (
	ikeProposals = []string{"aes256gcm16-prfsha384-ecp384", "aes128gcm16-prfsha256-ecp256"}
	espProposals = []string{"aes256gcm16-ecp384", "aes128gcm16-ecp256"}
)

// dpdDelay is the time without a packet from a peer after which charon probes it.
const dpdDelay = "10s"

// newConnection returns the connection with a peer. Only a packet begins it, or Tunnels. So its text stays the same while a certificate is
// renewed: charon removes the policies of a connection for a moment when it replaces it.
func newConnection(chassis string, peer Peer, protection networkv1alpha1.TunnelProtection) connection {
	action := "none"
	if protection == networkv1alpha1.ProtectionRequired {
		action = "trap"
	}
	out := child{Mode: "transport", ESPProposals: espProposals, StartAction: action, DPDAction: action, CloseAction: action}
	in := out
	out.LocalTS, out.RemoteTS = []string{anyPort(peer.Local)}, []string{genevePort(peer.Address)}
	in.LocalTS, in.RemoteTS = []string{genevePort(peer.Local)}, []string{anyPort(peer.Address)}
	return connection{Version: "2", LocalAddrs: []string{peer.Local.String()}, RemoteAddrs: []string{peer.Address.String()},
		Proposals: ikeProposals, Unique: "no", MOBIKE: "no", DPDDelay: dpdDelay,
		Local:    &end{Auth: "pubkey", ID: identityOf(chassis)},
		Remote:   &end{Auth: "pubkey", ID: identityOf(peer.Chassis)},
		Children: map[string]child{outward: out, "in": in}}
}

// outward is the child for the packets that a node sends.
const outward = "out"

// begins reports whether this node negotiates with a peer: of two nodes the one with the lower address, so that both do not at once.
func (p Peer) begins() bool { return p.Local.Compare(p.Address) < 0 }

// identityOf is the subject of a chassis' certificate.
func identityOf(chassis string) string { return "CN=" + chassis }

// anyPort selects UDP of an address. The protocol is a number, because the daemon's image has no /etc/protocols.
func anyPort(a netip.Addr) string { return fmt.Sprintf("%s/%d[%d]", a, a.BitLen(), unix.IPPROTO_UDP) }

// genevePort selects the tunnels' port of an address.
func genevePort(a netip.Addr) string {
	return fmt.Sprintf("%s/%d[%d/%d]", a, a.BitLen(), unix.IPPROTO_UDP, ports.Geneve)
}
