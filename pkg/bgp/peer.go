package bgp

import (
	"cmp"
	"fmt"
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Peer is what Compute finds out about a BGPPeer.
type Peer struct {
	// Nodes are the nodes that have a session with it, sorted.
	Nodes []string
	// Reason and Message say what is wrong with the BGPPeer. They are empty for a good one.
	Reason, Message string
}

const (
	defaultPort, defaultHold, defaultRestart = 179, 90, 120
	keepalivesPerHold                        = 3 // RFC 4271 §10
	defaultInterval, defaultMultiplier       = 300, 3
)

// assignPeers gives each node its peers, the oldest BGPPeer first.
func (w World) assignPeers(nodes []*node) map[string]*Peer {
	results := map[string]*Peer{}
	peers := slices.Clone(w.Peers)
	slices.SortFunc(peers, func(a, b networkv1alpha1.BGPPeer) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for i := range peers {
		if p := &peers[i]; p.DeletionTimestamp.IsZero() {
			results[p.Name] = assignPeer(p, nodes)
		}
	}
	for _, n := range nodes {
		slices.SortFunc(n.peers, func(a, b networkv1alpha1.NodeBGPPeer) int { return cmp.Compare(a.Name, b.Name) })
	}
	return results
}

func assignPeer(p *networkv1alpha1.BGPPeer, nodes []*node) *Peer {
	result := &Peer{}
	selector, err := selectorOf(p.Spec.NodeSelector)
	if err != nil {
		result.Reason, result.Message = networkv1alpha1.ReasonInvalidSpec, "spec.nodeSelector: "+err.Error()
		return result
	}
	session := sessionOf(p)
	for _, n := range nodes {
		if !selector.Matches(n.labels) {
			continue
		}
		if other := n.rival(session); other != "" {
			result.Reason = networkv1alpha1.ReasonPeerConflict
			result.Message = cmp.Or(result.Message, fmt.Sprintf("node %s: %s", n.name, other))
			continue
		}
		n.peers = append(n.peers, session)
		result.Nodes = append(result.Nodes, n.name)
	}
	if len(result.Nodes) == 0 && result.Reason == "" {
		result.Reason, result.Message = networkv1alpha1.ReasonNoNode, "spec.nodeSelector selects no node"
	}
	return result
}

// rival returns why a node cannot have a further session, or "".
func (n *node) rival(session networkv1alpha1.NodeBGPPeer) string {
	for _, other := range n.peers {
		if other.PeerAddress == session.PeerAddress && other.PeerPort == session.PeerPort {
			return "the older BGPPeer " + other.Name + " has the same address and port"
		}
		if other.PeerAddress == session.PeerAddress && other.BFD != nil && session.BFD != nil && other.BFD.MultiHop == session.BFD.MultiHop {
			return "the older BGPPeer " + other.Name + " has BFD with the same address: omit spec.bfd in one of them"
		}
	}
	if len(n.peers) == networkv1alpha1.MaxNodeBGPPeers {
		return fmt.Sprintf("it has %d older BGPPeers already", networkv1alpha1.MaxNodeBGPPeers)
	}
	return ""
}

// sessionOf returns a node's part of a BGPPeer, with the defaults of omitted fields.
func sessionOf(p *networkv1alpha1.BGPPeer) networkv1alpha1.NodeBGPPeer {
	s := p.Spec
	session := networkv1alpha1.NodeBGPPeer{Name: p.Name, PeerAddress: networkv1alpha1.IP(s.PeerAddress), PeerASN: s.PeerASN, MyASN: s.MyASN,
		PeerPort: cmp.Or(s.PeerPort, defaultPort), SourceAddress: networkv1alpha1.IP(s.SourceAddress),
		HoldTimeSeconds: cmp.Or(s.HoldTimeSeconds, defaultHold), EBGPMultiHop: s.EBGPMultiHop, PasswordKey: s.PasswordKey,
		GracefulRestartTimeSeconds: defaultRestart}
	session.KeepaliveTimeSeconds = cmp.Or(s.KeepaliveTimeSeconds, session.HoldTimeSeconds/keepalivesPerHold)
	if s.GracefulRestartTimeSeconds != nil {
		session.GracefulRestartTimeSeconds = *s.GracefulRestartTimeSeconds
	}
	if s.BFD != nil {
		session.BFD = &networkv1alpha1.NodeBFD{
			TransmitIntervalMilliseconds: cmp.Or(s.BFD.TransmitIntervalMilliseconds, defaultInterval),
			ReceiveIntervalMilliseconds:  cmp.Or(s.BFD.ReceiveIntervalMilliseconds, defaultInterval),
			DetectMultiplier:             cmp.Or(s.BFD.DetectMultiplier, defaultMultiplier),
			MultiHop:                     s.BFD.MultiHop || s.EBGPMultiHop,
		}
	}
	return session
}
