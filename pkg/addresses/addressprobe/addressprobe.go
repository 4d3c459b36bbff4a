// Package addressprobe decides which node probes an address that an EgressIP or a Service waits for, and whether the host that has it is
// foreign. It is pure: it reads no cache and writes nothing.
//
//	wanted addresses ─▶ NodeNetwork.spec.probeAddresses ─▶ agent ─▶ NodeNetwork.status.probed ─▶ Of: Free, Waits, Foreign
package addressprobe

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/lbpool"
)

const (
	// Patience is how long a node may take to report a result.
	Patience = 20 * time.Second
	// tries is how many nodes are tried. If each reports an error or no result, the address is given without a probe.
	tries = 2
)

// Verdict says whether an address may be given.
type Verdict int

// The verdicts.
const (
	Free    Verdict = iota // no foreign host has the address, or no node can find out
	Waits                  // no node has found out yet
	Foreign                // a foreign host has the address
)

// Nodes has what the nodes of a cluster found out, and which of them can probe.
type Nodes struct {
	able []prober
	own  map[string]bool // MACs of nodes
}

// prober is a node that can probe.
type prober struct {
	name     string
	networks []netip.Prefix
	requests map[netip.Addr]networkv1alpha1.AddressProbe
	results  map[netip.Addr]networkv1alpha1.ProbedAddress // only of requests
}

// Read reads what the nodes found out. Only a node that is ready, and whose agent can probe, counts.
func Read(nodes []corev1.Node, networks []networkv1alpha1.NodeNetwork) Nodes {
	n, ready := Nodes{own: map[string]bool{}}, map[string]bool{}
	for i := range nodes { // Nodes are large
		ready[nodes[i].Name] = lbpool.IsReady(&nodes[i]) && nodes[i].DeletionTimestamp.IsZero()
	}
	for i := range networks {
		nn, gateway := &networks[i], networks[i].Status.Gateway
		if gateway == nil {
			continue
		}
		p := prober{name: nn.Name, requests: map[netip.Addr]networkv1alpha1.AddressProbe{},
			results: map[netip.Addr]networkv1alpha1.ProbedAddress{}}
		n.own[macOf(gateway.MACAddress)] = true
		p.addNetworks(gateway.Addresses)
		for _, link := range gateway.FurtherLinks {
			n.own[macOf(link.MACAddress)] = true
			p.addNetworks(link.Addresses)
		}
		if !gateway.ProbesAddresses || !ready[nn.Name] || !nn.DeletionTimestamp.IsZero() {
			continue
		}
		p.addResults(nn)
		n.able = append(n.able, p)
	}
	slices.SortFunc(n.able, func(a, b prober) int { return strings.Compare(a.name, b.name) })
	return n
}

func macOf(mac networkv1alpha1.MACAddress) string { return strings.ToLower(string(mac)) }

func (p *prober) addNetworks(of []networkv1alpha1.InterfaceAddress) {
	for _, text := range of {
		if network, err := text.Prefix(); err == nil { // the gateway's own controller reports the error
			p.networks = append(p.networks, network.Masked())
		}
	}
}

func (p *prober) addResults(nn *networkv1alpha1.NodeNetwork) {
	for _, request := range nn.Spec.ProbeAddresses {
		if a, err := request.Address.Addr(); err == nil { // only the operator writes the spec
			p.requests[a] = request
		}
	}
	for _, result := range nn.Status.Probed {
		a, err := result.Address.Addr()
		if request, ok := p.requests[a]; err == nil && ok && request.RequestedAt.Equal(&result.RequestedAt) {
			p.results[a] = result
		}
	}
}

func (p prober) isOn(a netip.Addr) bool {
	return slices.ContainsFunc(p.networks, func(n netip.Prefix) bool { return n.Contains(a) })
}

// state is what a node found out about an address.
type state int

const (
	unrequested state = iota
	waiting
	failed
	free
	foreign
)

func (n Nodes) stateAt(p prober, a netip.Addr) state {
	request, requested := p.requests[a]
	result, reported := p.results[a]
	switch {
	case !requested:
		return unrequested
	case reported && result.Error == "" && result.MACAddress != "" && !n.own[macOf(result.MACAddress)]:
		return foreign
	case reported && result.Error == "":
		return free
	case reported || request.Expired:
		return failed
	}
	return waiting
}

// survey counts the nodes on the network of an address, by their state. mac is that of a foreign host.
func (n Nodes) survey(a netip.Addr) (count map[state]int, near int, mac string) {
	count = map[state]int{}
	for _, p := range n.able {
		if !p.isOn(a) {
			continue
		}
		s := n.stateAt(p, a)
		count[s]++
		near++
		if s == foreign {
			mac = macOf(p.results[a].MACAddress)
		}
	}
	return count, near, mac
}

// Of returns whether an address may be given, and the MAC of a foreign host that has it.
func (n Nodes) Of(a netip.Addr) (v Verdict, mac string) {
	count, near, mac := n.survey(a)
	switch {
	case count[foreign] > 0:
		return Foreign, mac
	case count[free] > 0 || count[waiting] == 0 && count[failed] >= min(tries, near):
		return Free, ""
	}
	return Waits, ""
}

// CanProbe reports whether a node can probe an address.
func (n Nodes) CanProbe(a netip.Addr) bool {
	return slices.ContainsFunc(n.able, func(p prober) bool { return p.isOn(a) })
}

// Foreign returns the addresses that foreign hosts have, each with the host's MAC.
func (n Nodes) Foreign() map[netip.Addr]string {
	found := map[netip.Addr]string{}
	for _, p := range n.able {
		for a, result := range p.results {
			if n.stateAt(p, a) == foreign {
				found[a] = macOf(result.MACAddress)
			}
		}
	}
	return found
}

// Requests returns the probes of each node, by name and sorted, so that a node probes each wanted address that it can probe. A request
// that exists stays. If the node does not answer in time, another node is requested too. again is when the next request
// expires; 0: none will.
func (n Nodes) Requests(wanted []netip.Addr, now time.Time) (of map[string][]networkv1alpha1.AddressProbe, again time.Duration) {
	of = map[string][]networkv1alpha1.AddressProbe{}
	n.expire(now)
	wanted = slices.SortedFunc(slices.Values(wanted), netip.Addr.Compare)
	for _, a := range slices.Compact(wanted) {
		if v, _ := n.Of(a); v == Waits {
			n.request(a, now)
		}
		for _, p := range n.able {
			if request, ok := p.requests[a]; ok && p.isOn(a) {
				of[p.name] = append(of[p.name], request)
				if left := request.RequestedAt.Add(Patience).Sub(now); n.stateAt(p, a) == waiting && (again == 0 || left < again) {
					again = left
				}
			}
		}
	}
	for _, requests := range of {
		slices.SortFunc(requests, func(a, b networkv1alpha1.AddressProbe) int { return cmp.Compare(a.Address, b.Address) })
	}
	return of, again
}

// expire marks the requests without a result in time.
func (n Nodes) expire(now time.Time) {
	for _, p := range n.able {
		for a, request := range p.requests {
			if n.stateAt(p, a) == waiting && now.Sub(request.RequestedAt.Time) >= Patience {
				request.Expired = true
				p.requests[a] = request
			}
		}
	}
}

// request requests a probe of an address from the node on its network that has the fewest requests, unless a node is at work.
func (n Nodes) request(a netip.Addr, now time.Time) {
	if count, _, _ := n.survey(a); count[waiting] > 0 {
		return
	}
	best := -1
	for i, p := range n.able {
		if p.isOn(a) && n.stateAt(p, a) == unrequested && len(p.requests) < networkv1alpha1.MaxAddressProbes &&
			(best < 0 || len(p.requests) < len(n.able[best].requests)) {
			best = i
		}
	}
	if best >= 0 {
		n.able[best].requests[a] = networkv1alpha1.AddressProbe{Address: networkv1alpha1.IP(a.String()),
			RequestedAt: metav1.NewTime(now.Truncate(time.Second))}
	}
}
