package bgp

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Result is what the nodes must announce, and what the status of the objects must say.
type Result struct {
	// Nodes has the desired NodeNetwork.spec.bgp by node. It is nil for a node without peers.
	Nodes          map[string]*networkv1alpha1.NodeBGP
	Peers          map[string]*Peer
	Advertisements map[string]*Advertisement
}

// Advertisement is what Compute finds out about a BGPAdvertisement.
type Advertisement struct {
	Prefixes, Nodes int
	// Reason and Message say what is not announced. They are empty if everything is.
	Reason, Message string

	prefixes map[netip.Prefix]bool
	nodes    map[string]bool
	missing  []string // "ADDRESS: WHY", or "FIELD: WHY"
	unknown  bool     // the spec names an object that does not exist
}

// Compute decides what each node announces. An error is that of World's functions.
func Compute(w World) (Result, error) {
	nodes := w.nodes()
	result := Result{Nodes: map[string]*networkv1alpha1.NodeBGP{}, Advertisements: map[string]*Advertisement{}}
	result.Peers = w.assignPeers(nodes)
	addresses, err := w.addresses()
	if err != nil {
		return result, err
	}
	t := table{}
	for i := range w.Advertisements {
		object := &w.Advertisements[i]
		if !object.DeletionTimestamp.IsZero() {
			continue
		}
		found := &Advertisement{prefixes: map[netip.Prefix]bool{}, nodes: map[string]bool{}}
		result.Advertisements[object.Name] = found
		a, err := parse(object)
		if err != nil {
			found.Reason, found.Message = networkv1alpha1.ReasonInvalidSpec, err.Error()
			continue
		}
		if err := w.advertise(a, nodes, addresses, t, found); err != nil {
			return result, err
		}
	}
	held, unknown := false, result.hasUnknown()
	for _, n := range nodes {
		result.Nodes[n.name] = t.of(n, result.Advertisements)
		if unknown && n.hold(result.Nodes[n.name], w.inUse(n, addresses)) {
			held = true
		}
	}
	for _, found := range result.Advertisements {
		found.sum()
		if held && found.unknown {
			found.Message += "; the routes that nodes announce stay until the names are right"
		}
	}
	return result, nil
}

// hasUnknown reports whether an advertisement names an object that does not exist.
func (r Result) hasUnknown() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(r.Advertisements)), func(a *Advertisement) bool { return a.unknown })
}

// inUse lists what a node may announce at all, sorted: addresses of load balancers that it serves, egress IPs that it carries, and its pod
// subnets.
func (w World) inUse(n *node, addresses []*address) (all []netip.Prefix) {
	for _, of := range addresses {
		if n.serves && !n.excluded && of.pool.Nodes.Matches(n.labels) && (of.local == nil || of.local[n.name]) {
			all = append(all, netip.PrefixFrom(of.Addr, of.BitLen()))
		}
	}
	for i := range w.EgressIPs {
		for _, item := range w.EgressIPs[i].Status.Items {
			if a, err := item.EgressIP.Addr(); err == nil && item.Node == n.name {
				all = append(all, netip.PrefixFrom(a, a.BitLen()))
			}
		}
	}
	all = append(all, n.subnets...)
	slices.SortFunc(all, comparePrefixes)
	return all
}

// contains reports whether a prefix contains one of others, which are sorted.
func contains(prefix netip.Prefix, others []netip.Prefix) bool {
	at, _ := slices.BinarySearchFunc(others, prefix, comparePrefixes)
	return at < len(others) && prefix.Contains(others[at].Addr())
}

// hold adds the routes that the node announces so far, of prefixes with something in use. While an advertisement has a wrong name, they
// may be its routes: a wrong word withdraws none.
func (n *node) hold(spec *networkv1alpha1.NodeBGP, inUse []netip.Prefix) (held bool) {
	if spec == nil {
		return false
	}
	now := map[string]bool{}
	for i := range spec.Routes {
		now[spec.Routes[i].Prefix] = true
	}
	for _, former := range n.announced {
		prefix, err := netip.ParsePrefix(former.Prefix)
		if err != nil || now[former.Prefix] || len(spec.Routes) >= networkv1alpha1.MaxNodeBGPRoutes || !contains(prefix, inUse) {
			continue
		}
		had := len(former.Peers)
		former.Peers = slices.DeleteFunc(slices.Clone(former.Peers), func(name string) bool {
			return !slices.ContainsFunc(n.peers, func(p networkv1alpha1.NodeBGPPeer) bool { return p.Name == name })
		})
		if had == 0 || len(former.Peers) > 0 { // without names, all peers get it
			spec.Routes, held = append(spec.Routes, former), true
		}
	}
	return held
}

// target is a node that announces routes of an advertisement, and the peers that get them.
type target struct {
	*node
	peers []string
}

// unknown lists the names in an advertisement's spec that no object has.
func (w World) unknown(a advertisement) (unknown []string) {
	for _, name := range a.Spec.Peers {
		if !slices.ContainsFunc(w.Peers, func(p networkv1alpha1.BGPPeer) bool { return p.Name == name }) {
			unknown = append(unknown, fmt.Sprintf("spec.peers: there is no BGPPeer %s", name))
		}
	}
	if a.Spec.LoadBalancers == nil {
		return unknown
	}
	for _, name := range a.Spec.LoadBalancers.Pools {
		if !slices.ContainsFunc(w.Pools, func(p networkv1alpha1.LoadBalancerPool) bool { return p.Name == name }) {
			unknown = append(unknown, fmt.Sprintf("spec.loadBalancers.pools: there is no LoadBalancerPool %s", name))
		}
	}
	return unknown
}

// advertise enters the routes of an advertisement into the table.
func (w World) advertise(a advertisement, nodes []*node, addresses []*address, t table, found *Advertisement) error {
	found.missing = w.unknown(a)
	found.unknown = len(found.missing) > 0
	var targets []target
	for _, n := range nodes {
		if peers := a.peersOf(n); len(peers) > 0 {
			targets = append(targets, target{n, peers})
		}
	}
	if len(targets) == 0 {
		found.Reason, found.Message = networkv1alpha1.ReasonNoPeer,
			strings.Join(append([]string{"no selected node has a session with a selected BGPPeer"}, found.missing...), "; ")
		return nil
	}
	if a.Spec.PodSubnets {
		for _, n := range targets {
			for _, subnet := range n.subnets {
				if n.nextHop(subnet.Addr().Is4()).IsValid() {
					t.add(n, subnet, a, found)
				}
			}
		}
	}
	for _, of := range addresses {
		selected, err := a.selects(of, w.NamespaceLabels)
		if err != nil {
			return err
		}
		if !selected {
			continue
		}
		announcing, why := of.announcing(targets)
		if why != "" {
			found.missing = append(found.missing, fmt.Sprintf("%s: %s", of.Addr, why))
		}
		for _, n := range announcing {
			t.add(n, a.aggregate(of.Addr), a, found)
		}
	}
	if a.Spec.EgressIPs != nil {
		w.advertiseEgressIPs(a, targets, t, found)
	}
	return nil
}

// advertiseEgressIPs enters the addresses that nodes carry.
func (w World) advertiseEgressIPs(a advertisement, targets []target, t table, found *Advertisement) {
	for i := range w.EgressIPs {
		e := &w.EgressIPs[i]
		if !a.egressIPs.Matches(labels.Set(e.Labels)) {
			continue
		}
		for _, item := range e.Status.Items {
			address, err := item.EgressIP.Addr()
			if err != nil {
				continue // its own controller wrote it
			}
			at := slices.IndexFunc(targets, func(n target) bool { return n.name == item.Node })
			if at < 0 || !targets[at].nextHop(address.Is4()).IsValid() {
				found.missing = append(found.missing,
					fmt.Sprintf("%s: node %s, which carries it, announces nothing of its family", address, item.Node))
				continue
			}
			t.add(targets[at], a.aggregate(address), a, found)
		}
	}
}

// announcing returns the nodes that announce an address. Without one, why says why.
func (of *address) announcing(targets []target) (able []target, why string) {
	for _, n := range targets {
		if n.serves && !n.excluded && n.nextHop(of.Is4()).IsValid() && of.pool.Nodes.Matches(n.labels) {
			able = append(able, n)
		}
	}
	if len(able) == 0 {
		return nil, "no node with a session is connected to the outside, has an address of its family, and is selected by the pool"
	}
	if of.local != nil {
		able = slices.DeleteFunc(able, func(n target) bool { return !of.local[n.name] })
		if len(able) == 0 {
			return nil, "externalTrafficPolicy is Local, and no announcing node has a ready endpoint"
		}
		return able, ""
	}
	if preferred := slices.DeleteFunc(slices.Clone(able), func(n target) bool { return !n.preferred }); len(preferred) > 0 {
		return preferred, ""
	}
	return able, ""
}

// sum fills in the counts and the message.
func (f *Advertisement) sum() {
	f.Prefixes, f.Nodes = len(f.prefixes), len(f.nodes)
	switch {
	case f.Reason != "":
	case len(f.missing) > 0:
		const named = 5
		f.Reason, f.Message = networkv1alpha1.ReasonNotAnnounced, strings.Join(f.missing[:min(named, len(f.missing))], "; ")
		if more := len(f.missing) - named; more > 0 {
			f.Message += fmt.Sprintf("; and %d more", more)
		}
	case f.Prefixes == 0:
		f.Reason, f.Message = networkv1alpha1.ReasonNothingSelected, "nothing is selected: no Service has an address of the pools, "+
			"no node carries one of the EgressIPs, and no node has a pod subnet to announce"
	}
}

// attributes are a route's attributes for one peer.
type attributes struct {
	preference  *int64
	communities []string
}

func (a attributes) compare(b attributes) int {
	if (a.preference == nil) != (b.preference == nil) {
		if a.preference == nil {
			return -1
		}
		return 1
	}
	if a.preference != nil && *a.preference != *b.preference {
		return cmp.Compare(*a.preference, *b.preference)
	}
	return slices.Compare(a.communities, b.communities)
}

// table has the routes of all nodes: by node, prefix and peer.
type table map[string]map[netip.Prefix]map[string]attributes

// add enters a route of an advertisement, or its attributes into a route that another advertisement entered.
func (t table) add(n target, prefix netip.Prefix, a advertisement, found *Advertisement) {
	found.prefixes[prefix], found.nodes[n.name] = true, true
	if t[n.name] == nil {
		t[n.name] = map[netip.Prefix]map[string]attributes{}
	}
	route := t[n.name][prefix]
	if route == nil {
		route = map[string]attributes{}
		t[n.name][prefix] = route
	}
	for _, peer := range n.peers {
		has := route[peer]
		if p := a.Spec.LocalPreference; p != nil && (has.preference == nil || *p > *has.preference) {
			has.preference = p
		}
		for _, c := range a.Spec.Communities {
			has.communities = append(has.communities, strings.TrimPrefix(string(c), "large:"))
		}
		slices.Sort(has.communities)
		has.communities = slices.Compact(has.communities)
		route[peer] = has
	}
}

// of returns a node's part of the table. The order is always the same.
func (t table) of(n *node, advertisements map[string]*Advertisement) *networkv1alpha1.NodeBGP {
	if len(n.peers) == 0 {
		return nil
	}
	spec := &networkv1alpha1.NodeBGP{RouterID: networkv1alpha1.IP(n.routerID.String()), Peers: n.peers}
	for _, hop := range n.nextHops {
		spec.NextHops = append(spec.NextHops, networkv1alpha1.IP(hop.String()))
	}
	var prefixes []netip.Prefix
	for prefix := range t[n.name] {
		prefixes = append(prefixes, prefix)
	}
	slices.SortFunc(prefixes, comparePrefixes)
	order := make(map[string]int, len(prefixes))
	var announced, fresh []netip.Prefix
	had := make(map[string]bool, len(n.announced))
	for i := range n.announced {
		had[n.announced[i].Prefix] = true
	}
	for i, prefix := range prefixes {
		order[prefix.String()] = i
		if had[prefix.String()] {
			announced = append(announced, prefix)
		} else {
			fresh = append(fresh, prefix)
		}
	}
	for _, prefix := range slices.Concat(announced, fresh) { // a new route displaces none that clients use
		routes := group(prefix, t[n.name][prefix], len(n.peers))
		if len(spec.Routes)+len(routes) > networkv1alpha1.MaxNodeBGPRoutes {
			for _, found := range advertisements {
				if found.prefixes[prefix] && found.nodes[n.name] {
					found.Reason = networkv1alpha1.ReasonTooManyRoutes
					found.Message = fmt.Sprintf("node %s announces %d routes at most: shorten the aggregation lengths, or select fewer addresses",
						n.name, networkv1alpha1.MaxNodeBGPRoutes)
				}
			}
			continue
		}
		spec.Routes = append(spec.Routes, routes...)
	}
	slices.SortStableFunc(spec.Routes, func(a, b networkv1alpha1.NodeBGPRoute) int {
		return cmp.Compare(order[a.Prefix], order[b.Prefix])
	})
	return spec
}

func comparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}

// group returns a route for each set of peers that get a prefix with the same attributes. Without names, all peers get it.
func group(prefix netip.Prefix, byPeer map[string]attributes, peers int) (routes []networkv1alpha1.NodeBGPRoute) {
	var names []string
	for name := range byPeer {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(byPeer[a].compare(byPeer[b]), cmp.Compare(a, b)) })
	for i, name := range names {
		has := byPeer[name]
		if i > 0 && has.compare(byPeer[names[i-1]]) == 0 {
			last := &routes[len(routes)-1]
			last.Peers = append(last.Peers, name)
			continue
		}
		routes = append(routes, networkv1alpha1.NodeBGPRoute{Prefix: prefix.String(), LocalPreference: has.preference,
			Communities: has.communities, Peers: []string{name}})
	}
	if len(routes) == 1 && len(routes[0].Peers) == peers {
		routes[0].Peers = nil
	}
	return routes
}
