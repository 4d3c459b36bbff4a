package render

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Names of the relays' workloads outside zones. They exist only with relays.
const (
	Relays  = "weft-relay"
	Sources = "weft-relay-source"
)

// Components of the pods of relays and sources outside zones, and the beginnings of the components in zones: "relay-zone-east". Without
// the word zone, the relays of a zone with the name source would be the sources of the relays outside zones.
const (
	componentRelay       = "relay"
	componentSource      = "relay-source"
	componentZoneRelays  = "relay-zone"
	componentZoneSources = "relay-source-zone"
)

// RelaysOf returns the name of the DaemonSet of a zone's relays, or of those outside zones if zone is "".
func RelaysOf(zone string) string {
	if zone == "" {
		return Relays
	}
	return "weft-" + componentZoneRelays + "-" + zone
}

// SourcesOf returns the name of the DaemonSet of the sources of a zone's relays, or of those outside zones if zone is "".
func SourcesOf(zone string) string {
	if zone == "" {
		return Sources
	}
	return "weft-" + componentZoneSources + "-" + zone
}

// RelaySecret has the key pair of all relays, of all zones. It exists only with relays.
const RelaySecret = "weft-sb-relay"

// RelayFacts are the inputs of NextRelays.
type RelayFacts struct {
	// Zone is the zone of the relays, or "" for those outside zones. Zones are the zones of the spec.
	Zone   string
	Zones  []networkv1alpha1.Zone
	Wanted networkv1alpha1.Relays
	// Before are the relays of the last status, whose order and states are kept. Others are the relays of the other zones, and of
	// those outside zones: two relays on a node would need the same ports.
	Before, Others []networkv1alpha1.RelayStatus
	Nodes          []corev1.Node
	// Databases are the nodes of all databases.
	Databases []string
	// Pods are the pods of all relays, and Networks all NodeNetworks, whose specs say which relays nodes use.
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

// LeftRelays returns the relays that the nodes of a zone use which left the spec, as leaving: no status has them any more.
func LeftRelays(zone string, nodes []corev1.Node, networks []networkv1alpha1.NodeNetwork) (left []networkv1alpha1.RelayStatus) {
	used := map[networkv1alpha1.IP]bool{}
	for i := range networks {
		for _, address := range networks[i].Spec.Relays {
			used[address] = used[address] || string(networks[i].Spec.Zone) == zone
		}
	}
	for _, n := range nodes {
		if all := addressesOf(n); len(all) > 0 && used[networkv1alpha1.IP(all[0].String())] {
			left = append(left, networkv1alpha1.RelayStatus{Node: n.Name, Address: networkv1alpha1.IP(all[0].String()),
				State: networkv1alpha1.RelayLeaving})
		}
	}
	slices.SortFunc(left, func(a, b networkv1alpha1.RelayStatus) int { return cmp.Compare(a.Node, b.Node) })
	return left
}

// choose returns the nodes of the wanted relays: first the nodes that have a relay, in their order, then others by preference.
func (f RelayFacts) choose(nodes map[string]corev1.Node) (chosen []string) {
	wanted := int(f.Wanted.Count)
	add := func(name string) {
		if n, there := nodes[name]; there && len(chosen) < wanted && !slices.Contains(chosen, name) && f.may(n) {
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

// may reports whether a node may run a relay.
func (f RelayFacts) may(n corev1.Node) bool {
	return labels.SelectorFromSet(f.Wanted.NodeSelector).Matches(labels.Set(n.Labels)) && zoneOf(n, f.Zones) == f.Zone &&
		!slices.ContainsFunc(f.Others, func(r networkv1alpha1.RelayStatus) bool { return r.Node == n.Name }) &&
		!slices.ContainsFunc(f.Pods, func(p corev1.Pod) bool { return p.Spec.NodeName == n.Name && !f.own(&p) })
}

// own reports whether a relay's pod is of this zone.
func (f RelayFacts) own(p *corev1.Pod) bool {
	return "weft-"+p.Labels[networkv1alpha1.ComponentLabel] == RelaysOf(f.Zone)
}

// IsRelay reports whether a pod is a relay, of any zone.
func IsRelay(p *corev1.Pod) bool { return isOf(p, componentRelay, componentZoneRelays) }

// IsSource reports whether a pod is a source of relays, of any zone.
func IsSource(p *corev1.Pod) bool { return isOf(p, componentSource, componentZoneSources) }

func isOf(p *corev1.Pod, outside, zones string) bool {
	component := p.Labels[networkv1alpha1.ComponentLabel]
	return component == outside || strings.HasPrefix(component, zones+"-")
}

// rank returns a node's preference for a relay; higher is better. A relay should not compete with databases.
func (f RelayFacts) rank(n corev1.Node) int {
	score := 0
	for _, good := range []bool{!n.Spec.Unschedulable, !slices.Contains(f.Databases, n.Name)} {
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
	return podReady(f.Pods, "the relay has no pod yet", func(p *corev1.Pod) bool { return p.Spec.NodeName == node && f.own(p) })
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
