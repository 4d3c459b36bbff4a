package histories

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
	"github.com/weft-network/weft/pkg/addresses/floating/claim"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
)

// floats is what the oracle derives for floating addresses.
type floats struct {
	// api reads workloads as they are.
	api client.Client
	// truth has the present IPPools and FloatingIPs, as a process has them whose caches are not behind.
	truth *claim.Claimer
	// refused says for each pool why it is not in force; empty: it is.
	refused map[string]string
	// given has the floating addresses at each pod's port.
	given map[*corev1.Pod]givenAddresses
}

// givenAddresses are the addresses of IPPools at a pod's port, in the order of the port's marks.
type givenAddresses struct{ own, translated []netip.Addr }

// readFloating reads the pools and addresses.
func (o *oracle) readFloating() error {
	o.truth, o.refused = claim.New(o.api, o.api, time.Now), map[string]string{}
	o.given = map[*corev1.Pod]givenAddresses{}
	for i := range o.floatingIPs {
		o.truth.Book.Observe(&o.floatingIPs[i])
	}
	for i := range o.ippools {
		read, err := floating.ParsePool(&o.ippools[i])
		o.refused[read.Name] = o.refusal(&o.ippools[i], read, err)
		o.truth.Book.SetPool(read, o.refused[read.Name])
	}
	return nil
}

// refusal returns why a pool is not in force, or "".
func (o *oracle) refusal(pool *networkv1alpha1.IPPool, read floating.Pool, err error) string {
	if err != nil {
		return err.Error()
	}
	var taken []networkv1alpha1.AddressRange
	for i := range o.ippools {
		other := &o.ippools[i]
		before := other.CreationTimestamp.Before(&pool.CreationTimestamp) ||
			other.CreationTimestamp.Equal(&pool.CreationTimestamp) && other.Name < pool.Name
		if theirs, err := floating.ParsePool(other); err == nil && before {
			for _, s := range theirs.Segments {
				taken = append(taken, s.AddressRange)
			}
		}
	}
	if read.Location == networkv1alpha1.LocationOverlay {
		for _, subnet := range o.subnets("") {
			taken = append(taken, floating.Of(subnet))
		}
	} else {
		taken = append(taken, o.outside(pool)...)
	}
	for _, s := range read.Segments {
		if pods := o.asked.PodNetworks(); read.Location == networkv1alpha1.LocationNAT && len(pods) > 0 &&
			!slices.ContainsFunc(pods, func(n netip.Prefix) bool { return n.Addr().Is4() == s.First.Is4() }) {
			return fmt.Sprintf("pods have no addresses of the family of %s", s)
		}
		inside := slices.ContainsFunc(o.asked.PodNetworks(), func(n netip.Prefix) bool { return n.Contains(s.First) && n.Contains(s.Last) })
		if read.Location == networkv1alpha1.LocationOverlay && !inside {
			return fmt.Sprintf("%s is in no network of pods", s)
		}
		for _, t := range taken {
			if t.Overlaps(s.AddressRange) {
				return fmt.Sprintf("%s overlaps %s", s, t)
			}
		}
	}
	for i := range o.floatingIPs {
		f := &o.floatingIPs[i]
		address, err := netip.ParseAddr(string(f.Spec.Address))
		if _, inside := read.SegmentOf(address); err == nil && f.Spec.Pool == read.Name && f.Spec.Holder != nil && !inside {
			return fmt.Sprintf("%s is in use", address)
		}
	}
	return ""
}

// outside returns the addresses that a NAT pool must not have, besides the addresses of other pools. EgressIPs that are younger than the
// pool yield to it, and Services that wait for the address.
func (o *oracle) outside(pool *networkv1alpha1.IPPool) (taken []networkv1alpha1.AddressRange) {
	for _, n := range slices.Concat(o.asked.PodNetworks(), o.asked.Services, o.asked.Join) {
		taken = append(taken, floating.Of(n))
	}
	add := func(a netip.Addr) { taken = append(taken, networkv1alpha1.AddressRange{First: a, Last: a}) }
	for i := range o.egress {
		for _, a := range facts.EgressAddressesInUse(&o.egress[i]) {
			if !pool.CreationTimestamp.Before(&o.egress[i].CreationTimestamp) {
				add(a)
			}
		}
	}
	for i := range o.services {
		for _, a := range facts.ExternalAddresses(&o.services[i]) {
			if !o.yields(&o.services[i], a) {
				add(a)
			}
		}
	}
	for _, node := range o.nodes {
		for _, text := range node.Status.Addresses {
			if a, err := netip.ParseAddr(text.Address); err == nil {
				add(a)
			}
		}
	}
	for _, nn := range o.networks {
		if gateway := nn.Status.Gateway; gateway != nil {
			for _, text := range gateway.Addresses {
				if own, err := text.Prefix(); err == nil {
					add(own.Addr())
				}
			}
			for _, text := range gateway.NextHops {
				if hop, err := text.Addr(); err == nil {
					add(hop)
				}
			}
		}
	}
	return taken
}

// inForceOf returns the NAT pool whose status lists an address as in force, or "".
func (o *oracle) inForceOf(address netip.Addr) string {
	for i := range o.ippools {
		for _, text := range o.ippools[i].Status.Ranges {
			r, err := networkv1alpha1.ParseAddressRange(text)
			if err == nil && r.Contains(address) && o.ippools[i].Spec.Location == networkv1alpha1.LocationNAT {
				return o.ippools[i].Name
			}
		}
	}
	return ""
}

// poolOf returns the NAT pool that has an address and is older than an object, or "". A refused pool has its addresses
// only while they are in use.
func (o *oracle) poolOf(address netip.Addr, created metav1.Time) string {
	for i := range o.ippools {
		pool := &o.ippools[i]
		read, err := floating.ParsePool(pool)
		_, has := read.SegmentOf(address)
		inUse := slices.ContainsFunc(o.floatingIPs, func(f networkv1alpha1.FloatingIP) bool {
			return f.Spec.Pool == pool.Name && f.Spec.Holder != nil
		})
		if err == nil && has && read.Location == networkv1alpha1.LocationNAT && pool.CreationTimestamp.Before(&created) &&
			(o.refused[pool.Name] == "" || inUse) {
			return pool.Name
		}
	}
	return ""
}

// givenTo returns the floating addresses at a pod's port, and checks that its FloatingIPs give exactly these.
func (o *oracle) givenTo(pod *corev1.Pod, r row) (given givenAddresses) {
	marks := mapOf(r["external_ids"])
	var err, err2 error
	given.own, err = ovnexpr.ParseAddresses(marks, ovnexpr.FloatingKey)
	given.translated, err2 = ovnexpr.ParseAddresses(marks, ovnexpr.TranslatedKey)
	if err != nil || err2 != nil {
		o.complain("the marks of the port of pod %s/%s are %v", pod.Namespace, pod.Name, marks)
		return given
	}
	o.given[pod] = given
	var own, translated []netip.Addr
	for _, f := range o.truth.Book.Of(pod.UID) {
		address := netip.MustParseAddr(string(f.Spec.Address))
		pool, _, known := o.truth.Book.Pool(f.Spec.Pool)
		_, inside := pool.SegmentOf(address)
		switch {
		case slices.Contains(given.own, address): // a pod keeps what it has of a pool that was deleted or recreated elsewhere
			own = append(own, address)
		case known && pool.Location == networkv1alpha1.LocationNAT:
			translated = append(translated, address)
		case known && inside:
			own = append(own, address)
		}
	}
	if !sameSet(own, given.own) || !sameSet(translated, given.translated) {
		o.complain("the port of pod %s/%s has floating addresses %v and translations %v, FloatingIPs give it %v and %v",
			pod.Namespace, pod.Name, given.own, given.translated, own, translated)
	}
	return given
}

func sameSet(a, b []netip.Addr) bool {
	return slices.Equal(slices.SortedFunc(slices.Values(a), netip.Addr.Compare), slices.SortedFunc(slices.Values(b), netip.Addr.Compare))
}

func hasFamily(addresses []netip.Addr, is4 bool) bool {
	return slices.ContainsFunc(addresses, func(a netip.Addr) bool { return a.Is4() == is4 })
}

// waysOut returns the next hops of floating addresses that leave a node. Without a report of the agent, the previous
// ones stay in force.
func (o *oracle) waysOut(node facts.Node, own []netip.Addr) (ways []netip.Addr) {
	if node.Chassis == "" {
		for _, policy := range o.rows["Logical_Router_Policy"] {
			for _, address := range own {
				if slices.Contains(atoms(policy["match"]), ovnexpr.Networks(ovnexpr.Source, netip.PrefixFrom(address, address.BitLen())).String()) {
					way, err := netip.ParseAddr(atoms(policy["nexthops"])[0])
					if err == nil && !hasFamily(ways, way.Is4()) {
						ways = append(ways, way)
					}
				}
			}
		}
		return ways
	}
	gateway, err := facts.ParseGateway(o.networks[node.Name], o.nodes[node.Name])
	if err != nil {
		return nil // reported already
	}
	return gateway.WaysOut()
}

// waysBack reads from the rows how pods reach the translated addresses of a pod, because without a report of the agent
// the previous rows stay in force.
func (o *oracle) waysBack(pod []netip.Addr) (ways []netip.Addr, clusters []netip.Prefix) {
	for _, nat := range o.rows["NAT"] {
		for _, address := range pod {
			if !slices.Contains(atoms(nat["match"]), ovnexpr.ToNetworks(netip.PrefixFrom(address, address.BitLen())).String()) {
				continue
			}
			way, err := netip.ParseAddr(oneAtom(nat["external_ip"]))
			cluster, err2 := netip.ParsePrefix(oneAtom(nat["logical_ip"]))
			if err == nil && err2 == nil {
				clusters = append(clusters, cluster)
				if !hasFamily(ways, way.Is4()) {
					ways = append(ways, way)
				}
			}
		}
	}
	return ways, clusters
}

// before counts the addresses that stay before an address without a pod: of one workload, pool, index and family, the
// addresses with a pod, and the lower ones.
func (o *oracle) before(f *networkv1alpha1.FloatingIP) (n int) {
	mine := netip.MustParseAddr(string(f.Spec.Address))
	for _, other := range o.truth.Book.OfWorkload(floating.WorkloadOf(f.Spec.Holder)) {
		theirs := netip.MustParseAddr(string(other.Spec.Address))
		if other.Spec.Pool == f.Spec.Pool && other.Spec.Holder.Index == f.Spec.Holder.Index && theirs.Is4() == mine.Is4() && theirs != mine &&
			(other.Spec.Holder.PodUID != "" || theirs.Less(mine)) {
			n++
		}
	}
	return n
}

// choose returns the addresses that a pod with a request gets now; requests is false for a pod without a request that
// can be read.
func (o *oracle) choose(pod *corev1.Pod) (addresses []netip.Addr, requests bool, err error) {
	requester, ok, err := o.truth.Requester(context.Background(), pod)
	if err != nil || !ok {
		return nil, false, err
	}
	requester.Has = o.given[pod].own
	var labels map[string]string
	if node := o.nodes[pod.Spec.NodeName]; node != nil {
		labels = node.Labels
	}
	choices, err := o.truth.Book.Choose(requester, floating.Node{Name: pod.Spec.NodeName, Labels: labels})
	for _, c := range choices {
		addresses = append(addresses, c.Address)
	}
	return addresses, true, err
}

// mayHavePort reports whether the floating addresses that a pod requests, if any, are there for it. A zone serves no pods that request
// them or Networks.
func (o *oracle) mayHavePort(pod *corev1.Pod) bool {
	_, asks := pod.Annotations[networkv1alpha1.IPPoolAnnotation]
	switch {
	case !o.decides() && (asks || pod.Annotations[networks.Annotation] != ""):
		return false
	case !asks:
		return true
	}
	if slices.ContainsFunc(o.truth.Book.Of(pod.UID), func(f *networkv1alpha1.FloatingIP) bool { return !o.exists(f.Spec.Pool) }) {
		return false // it waits for the pool
	}
	_, requests, err := o.choose(pod)
	return requests && err == nil
}

// ranBefore reports whether a pod with a port requests an Overlay pool that did not exist when it started: its
// interface keeps its address.
func (o *oracle) ranBefore(pod *corev1.Pod, given givenAddresses) bool {
	request, ok, err := networkv1alpha1.FloatingRequestOf(pod)
	if err != nil || !ok || len(given.own) > 0 {
		return false
	}
	pool, _, known := o.truth.Book.Pool(request.Pool)
	return known && pool.Location == networkv1alpha1.LocationOverlay
}

// checkFloating checks IPPools and FloatingIPs: none is held by what is gone, and each pod with a port has what it
// would be given.
func (o *oracle) checkFloating() {
	o.checkPlaced()
	for i := range o.ippools {
		o.checkIPPool(&o.ippools[i])
	}
	for i := range o.floatingIPs {
		o.checkFloatingIP(&o.floatingIPs[i])
	}
	for pod, given := range o.given {
		if node := o.nodesOf[pod.Spec.NodeName]; node.Chassis == "" {
			continue // the pod's addresses follow the agent's report
		}
		if o.ranBefore(pod, given) {
			continue
		}
		addresses, requests, err := o.choose(pod)
		addresses = slices.DeleteFunc(addresses, func(a netip.Addr) bool { // the translations of a deleted pool have gone with it
			f := o.truth.Book.Get(a)
			return f != nil && !o.exists(f.Spec.Pool) && !slices.Contains(given.own, a)
		})
		if has := slices.Concat(given.own, given.translated); requests && err == nil && !sameSet(addresses, has) {
			o.complain("pod %s/%s would be given %v, and has %v", pod.Namespace, pod.Name, addresses, has)
		}
	}
}

// exists reports whether an IPPool exists.
func (o *oracle) exists(pool string) bool {
	_, known := o.refused[pool]
	return known
}

func (o *oracle) checkIPPool(pool *networkv1alpha1.IPPool) {
	c := meta.FindStatusCondition(pool.Status.Conditions, networkv1alpha1.ConditionReady)
	if why := o.refused[pool.Name]; c == nil || c.ObservedGeneration != pool.Generation || (c.Status == metav1.ConditionTrue) != (why == "") {
		o.complain("IPPool %s of generation %d has condition %+v; what is wrong with it: %q", pool.Name, pool.Generation, c, why)
	}
	if read, err := floating.ParsePool(pool); err == nil && o.refused[pool.Name] == "" {
		var accepted []string
		for _, s := range read.Segments {
			accepted = append(accepted, s.AddressRange.String())
		}
		if !slices.Equal(pool.Status.Ranges, accepted) {
			o.complain("IPPool %s has %v in force, want %v", pool.Name, pool.Status.Ranges, accepted)
		}
	}
	counts := o.truth.Book.Counts(pool.Name)
	if s := pool.Status; s.Total != counts.Total || s.Used != counts.Used || s.Kept != counts.Kept {
		o.complain("IPPool %s has status %d/%d/%d, its FloatingIPs are %+v", pool.Name, s.Total, s.Used, s.Kept, counts)
	}
	if o.refused[pool.Name] != "" {
		return
	}
	read, _, _ := o.truth.Book.Pool(pool.Name)
	if missing := o.truth.Book.Missing(read); len(missing) > 0 {
		o.complain("IPPool %s of size %d lacks FloatingIPs, such as %v", pool.Name, read.Size, missing)
	}
	for _, f := range o.truth.Book.Surplus(read) {
		o.complain("FloatingIP %s is in no range of IPPool %s, and exists", f.Name, pool.Name)
	}
}

// checkFloatingIP checks that an address is held only as long as its release policy says.
func (o *oracle) checkFloatingIP(f *networkv1alpha1.FloatingIP) {
	h := f.Spec.Holder
	if h == nil {
		if _, reserved := f.Labels[networkv1alpha1.ReservedLabel]; !reserved && !o.exists(f.Spec.Pool) {
			o.complain("FloatingIP %s is nobody's and of IPPool %s, which does not exist", f.Name, f.Spec.Pool)
		}
		return
	}
	if h.PodUID != "" {
		alive := slices.ContainsFunc(o.pods, func(pod corev1.Pod) bool {
			return pod.UID == h.PodUID && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
		})
		if !alive {
			o.complain("FloatingIP %s is leaked: its pod %s/%s %s has ended", f.Name, h.Namespace, h.Pod, h.PodUID)
		}
		return
	}
	workload := floating.WorkloadOf(h)
	state, err := o.truth.Workloads.State(context.Background(), workload)
	if err != nil {
		o.complain("FloatingIP %s: %w", f.Name, err)
		return
	}
	switch outcome := floating.Decide(f, state, func(*networkv1alpha1.FloatingIP) int { return o.before(f) }, h.Since.Time, time.Now()); {
	case outcome.Released:
		o.complain("FloatingIP %s is leaked: it is kept for %s (%+v), against its policy %s", f.Name, workload, state, h.ReleasePolicy)
	case outcome.Again > 0 && outcome.Again < patience: // a pod that waits would get it after the check
		o.complain("FloatingIP %s is kept for %s, but only for %s more", f.Name, workload, outcome.Again)
	}
}
