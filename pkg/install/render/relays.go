package render

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Names of the relays' workloads. They exist only with relays.
const (
	Relays  = "weft-relay"
	Sources = "weft-relay-source"
)

// RelaySecret has the key pair of all relays. It exists only with relays.
const RelaySecret = "weft-sb-relay"

// RelayFacts are the inputs of NextRelays.
type RelayFacts struct {
	Wanted networkv1alpha1.Relays
	// Before are the relays of the last status, whose order and states are kept.
	Before []networkv1alpha1.RelayStatus
	Nodes  []corev1.Node
	// Databases are the members of the databases.
	Databases Place
	// Pods are the relays' pods, and Networks all NodeNetworks, whose specs say which relays nodes use.
	Pods     []corev1.Pod
	Networks []networkv1alpha1.NodeNetwork
}

// NextRelays returns the relays: the wanted relays, and unwanted relays that a node still uses. It is nil
// without relays. A relay keeps its node while the node exists and may run a relay.
func NextRelays(f RelayFacts) []networkv1alpha1.RelayStatus {
	nodes := map[string]corev1.Node{}
	for _, n := range f.Nodes {
		if n.DeletionTimestamp == nil && len(addressesOf(n)) > 0 {
			nodes[n.Name] = n
		}
	}
	chosen := f.choose(nodes)
	var next []networkv1alpha1.RelayStatus
	for _, name := range chosen {
		next = append(next, f.stateOf(name, addressesOf(nodes[name])[0]))
	}
	for _, r := range f.Before {
		if _, there := nodes[r.Node]; there && !slices.Contains(chosen, r.Node) && f.used(r.Address) {
			next = append(next, networkv1alpha1.RelayStatus{Node: r.Node, Address: r.Address, State: networkv1alpha1.RelayLeaving})
		}
	}
	return next
}

// choose returns the nodes of the wanted relays: first the nodes that have a relay, in their order, then others by preference.
func (f RelayFacts) choose(nodes map[string]corev1.Node) (chosen []string) {
	selector, wanted := labels.SelectorFromSet(f.Wanted.NodeSelector), int(f.Wanted.Count)
	add := func(name string) {
		if n, there := nodes[name]; there && len(chosen) < wanted && !slices.Contains(chosen, name) && selector.Matches(labels.Set(n.Labels)) {
			chosen = append(chosen, name)
		}
	}
	for _, leaving := range []bool{false, true} { // a leaving relay may be wanted again
		for _, r := range f.Before {
			if leaving == (r.State == networkv1alpha1.RelayLeaving) {
				add(r.Node)
			}
		}
	}
	var others []string
	for name := range nodes {
		others = append(others, name)
	}
	slices.SortFunc(others, func(a, b string) int {
		return cmp.Or(cmp.Compare(f.rank(nodes[b]), f.rank(nodes[a])), cmp.Compare(a, b))
	})
	for _, name := range others {
		add(name)
	}
	return chosen
}

// rank returns a node's preference for a relay; higher is better. A relay should not compete with the database.
func (f RelayFacts) rank(n corev1.Node) int {
	score := 0
	for _, good := range []bool{!n.Spec.Unschedulable, !slices.Contains(f.Databases.Nodes(), n.Name)} {
		score *= 2
		if good {
			score++
		}
	}
	return score
}

// stateOf returns the state of a wanted relay.
func (f RelayFacts) stateOf(node string, address netip.Addr) networkv1alpha1.RelayStatus {
	r := networkv1alpha1.RelayStatus{Node: node, Address: networkv1alpha1.IP(address.String()), State: networkv1alpha1.RelayStarting}
	for _, before := range f.Before {
		if before.Node == node && before.Address == r.Address && before.State.InUse() {
			r.State = networkv1alpha1.RelayUnavailable
		}
	}
	ready, why := f.podOn(node)
	if ready {
		r.State = networkv1alpha1.RelayReady
	}
	r.Message = cutText(why)
	return r
}

// podOn reports whether a node's relay works, and if not, why.
func (f RelayFacts) podOn(node string) (ready bool, why string) {
	return podReady(f.Pods, "the relay has no pod yet", func(p *corev1.Pod) bool { return p.Spec.NodeName == node })
}

// used reports whether a node uses the relay at an address.
func (f RelayFacts) used(address networkv1alpha1.IP) bool {
	return slices.ContainsFunc(f.Networks, func(nn networkv1alpha1.NodeNetwork) bool {
		return slices.Contains(nn.Spec.Relays, address)
	})
}

// WithRelays returns the place with the nodes of relays.
func (p Place) WithRelays(relays []networkv1alpha1.RelayStatus) Place {
	p.Relays = nil
	for _, r := range relays {
		if address, err := r.Address.Addr(); err == nil {
			p.Relays = append(p.Relays, Member{r.Node, []netip.Addr{address}})
		}
	}
	return p
}
