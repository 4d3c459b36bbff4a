package histories

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/lbpool"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/topology"
)

const (
	balancerPoolCount = 2
	balancedCount     = 3 // Services of type LoadBalancer, in each of two namespaces
)

func aBalanced(r *rand.Rand) string {
	return fmt.Sprintf("%c/l%d", 'a'+rune(r.IntN(2)), r.IntN(balancedCount))
}

var (
	balancerPoolVariants = []string{"", "", "unclassed", "unclassed", "closed", "overlap", "unreadable", "selective", "routed"}
	balancedVariants     = []string{"", "", "classed", "classed", "foreign", "requested", "bad", "shared", "shared", "local", "type"}
)

// balancerChoices are the steps of LoadBalancerPools and of Services of type LoadBalancer.
var balancerChoices = []choice{
	{4, func(r *rand.Rand) Step {
		return Step{Do: "lb-pool", Name: fmt.Sprint("p", r.IntN(balancerPoolCount)), What: oneOf(r, balancerPoolVariants...), N: r.IntN(4)}
	}},
	{2, func(r *rand.Rand) Step {
		return Step{Do: "delete-lb-pool", Name: fmt.Sprint("p", r.IntN(balancerPoolCount))}
	}},
	{3, func(r *rand.Rand) Step {
		return Step{Do: "change-lb-pool", Name: fmt.Sprint("p", r.IntN(balancerPoolCount)),
			What: oneOf(r, balancerPoolVariants...), N: r.IntN(4)}
	}},
	{8, func(r *rand.Rand) Step {
		return Step{Do: "lb-service", Name: aBalanced(r), What: oneOf(r, balancedVariants...), N: r.IntN(8)}
	}},
	{3, func(r *rand.Rand) Step { return Step{Do: "delete-lb-service", Name: aBalanced(r)} }},
	{4, func(r *rand.Rand) Step {
		return Step{Do: "change-lb-service", Name: aBalanced(r), What: oneOf(r, balancedVariants...), N: r.IntN(8)}
	}},
	{2, func(r *rand.Rand) Step { return Step{Do: "cordon", Name: fmt.Sprint("n", r.IntN(3)), N: r.IntN(2)} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "delay", Name: oneOf(r, "services", "loadbalancerpools")} }},
	{1, func(r *rand.Rand) Step { return Step{Do: "deliver", Name: oneOf(r, "services", "loadbalancerpools")} }},
}

// withLoadBalancers inserts steps of LoadBalancerPools into two of three histories.
func withLoadBalancers(p Plan) Plan {
	r := rand.New(rand.NewPCG(p.Seed, 14))
	if r.IntN(3) == 0 {
		return p
	}
	for range 8 + r.IntN(16) {
		p.Steps = slices.Insert(p.Steps, r.IntN(len(p.Steps)+1), draw(r, balancerChoices))
	}
	return p
}

// doLoadBalancer executes administrators' steps on pools, and users' steps on Services.
func (w *world) doLoadBalancer(ctx context.Context, s Step) (handled bool, err error) {
	key := podKey(s.Name)
	switch s.Do {
	case "lb-pool":
		return true, ignoreExists(w.api.Create(ctx, balancerPoolOf(s)))
	case "delete-lb-pool":
		return true, client.IgnoreNotFound(w.api.Delete(ctx, &networkv1alpha1.LoadBalancerPool{ObjectMeta: metav1.ObjectMeta{Name: s.Name}}))
	case "change-lb-pool":
		pool := &networkv1alpha1.LoadBalancerPool{}
		return true, change(ctx, w.api, types.NamespacedName{Name: s.Name}, pool, func() { pool.Spec = balancerPoolOf(s).Spec })
	case "lb-service":
		return true, ignoreExists(w.api.Create(ctx, balancedOf(key, s)))
	case "delete-lb-service":
		return true, client.IgnoreNotFound(w.api.Delete(ctx,
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}))
	case "change-lb-service":
		service := &corev1.Service{}
		return true, change(ctx, w.api, key, service, func() {
			made := balancedOf(key, s)
			service.Spec, service.Annotations = made.Spec, made.Annotations
		})
	case "leave-by":
		service := &corev1.Service{}
		return true, change(ctx, w.api, key, service, func() {
			delete(service.Annotations, networkv1alpha1.EgressSourceAnnotation)
			if s.What != "" {
				metav1.SetMetaDataAnnotation(&service.ObjectMeta, networkv1alpha1.EgressSourceAnnotation, s.What)
			}
		})
	}
	return false, nil
}

// balancerPoolOf derives a pool from the step. Pools are small, so that they are exhausted, and may overlap each other.
func balancerPoolOf(s Step) *networkv1alpha1.LoadBalancerPool {
	p := &networkv1alpha1.LoadBalancerPool{ObjectMeta: metav1.ObjectMeta{Name: s.Name}}
	p.Spec.LoadBalancerClass = networkv1alpha1.DefaultLoadBalancerClass
	first := 220 + s.N
	p.Spec.Addresses = []networkv1alpha1.LoadBalancerRange{
		networkv1alpha1.LoadBalancerRange(fmt.Sprintf("192.0.2.%d-192.0.2.%d", first, first+1)),
		networkv1alpha1.LoadBalancerRange(fmt.Sprintf("2001:db8::%d-2001:db8::%d", first, first+2))}
	switch s.What {
	case "unclassed":
		p.Spec.ServicesWithoutClass = true
	case "closed":
		p.Spec.AutoAssign, p.Spec.ServicesWithoutClass = new(false), true
	case "overlap":
		p.Spec.Addresses = append(p.Spec.Addresses, "10.96.0.0/24")
	case "unreadable":
		p.Spec.Addresses = append(p.Spec.Addresses, "192.0.2.9-192.0.2.8")
	case "routed":
		p.Spec.ServicesWithoutClass, p.Spec.AnnounceOnSegment = true, new(false)
	case "selective":
		p.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"out": "yes"}}
	}
	return p
}

// balancedOf derives a Service from the step.
func balancedOf(key types.NamespacedName, s Step) *corev1.Service {
	number := 201 + len(key.Namespace) + int(key.Namespace[0]-'a')*8 + int(key.Name[len(key.Name)-1]-'0')
	service := serviceOf(key, Step{N: number})
	service.Annotations = map[string]string{}
	spec := &service.Spec
	spec.Type, spec.IPFamilies = corev1.ServiceTypeLoadBalancer, []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	spec.Ports[0].Port = int32(80 + s.N%3)
	if s.N%2 == 0 {
		spec.LoadBalancerClass = new(networkv1alpha1.DefaultLoadBalancerClass)
	}
	switch s.What {
	case "classed":
		spec.IPFamilies, spec.LoadBalancerClass = spec.IPFamilies[:1], new(networkv1alpha1.DefaultLoadBalancerClass)
	case "foreign":
		spec.LoadBalancerClass = new("example.com/cloud")
	case "requested":
		service.Annotations[networkv1alpha1.LoadBalancerIPsAnnotation] = fmt.Sprintf("192.0.2.%d", 220+s.N%5)
	case "bad":
		annotation := networkv1alpha1.LoadBalancerIPsAnnotation // unreadable
		if s.N%3 == 0 {
			annotation = networkv1alpha1.LoadBalancerPoolAnnotation // no pool has the name
		}
		service.Annotations[annotation] = "192.0.2"
	case "shared":
		service.Annotations[networkv1alpha1.AllowSharedIPAnnotation] = "k"
		service.Annotations[networkv1alpha1.SharedIPNamespacesAnnotation] = []string{"", "*", "a,b"}[s.N%3]
	case "local":
		spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	case "type":
		spec.Type, spec.LoadBalancerClass = corev1.ServiceTypeClusterIP, nil
	}
	return service
}

// expectLoadBalancers expects the rows for the pools' status, and checks that allocating again would change nothing.
func (o *oracle) expectLoadBalancers() {
	var pools []lbpool.Pool
	for i := range o.balancers {
		p := &o.balancers[i]
		read, err := lbpool.ParsePool(p)
		ready := meta.FindStatusCondition(p.Status.Conditions, networkv1alpha1.ConditionReady)
		if ready == nil || ready.ObservedGeneration != p.Generation || (err != nil) != (ready.Reason == networkv1alpha1.ReasonInvalidSpec) {
			o.complain("the status of LoadBalancerPool %s does not follow its spec (%v): %+v", p.Name, err, p.Status)
			continue
		}
		if ready.Status != metav1.ConditionTrue {
			read.Refused = ready.Message
			if err != nil {
				read.Refused = "LoadBalancerPool " + p.Name + ": " + err.Error()
			}
		}
		pools = append(pools, read)
		o.checkAnnounced(p, read)
	}
	slices.SortFunc(pools, func(a, b lbpool.Pool) int { return cmp.Compare(a.Name, b.Name) })
	for i := range o.services {
		o.checkBalanced(&o.services[i], pools)
	}
}

// expectAnnounced expects the rows for a pool's status at the database's own nodes. It returns the nodes of all addresses.
func (o *oracle) expectAnnounced(p *networkv1alpha1.LoadBalancerPool) (have map[netip.Addr]string) {
	unit, byHost := facts.LoadBalancerPool{Name: p.Name}, map[string]bool{}
	for _, n := range o.speakers() {
		byHost[n.Name] = n.ByHost
	}
	have = map[netip.Addr]string{}
	for _, a := range p.Status.Announcements {
		address := netip.MustParseAddr(string(a.Address))
		if !o.elsewhere(a.Node) {
			unit.Announced = append(unit.Announced, facts.AnnouncedAddress{Address: address, Node: a.Node, ByHost: byHost[a.Node]})
		}
		have[address] = a.Node
	}
	o.units = append(o.units, topology.LoadBalancerPoolUnit(unit))
	return have
}

// checkAnnounced expects the rows for a pool's status, and each address at its node.
func (o *oracle) checkAnnounced(p *networkv1alpha1.LoadBalancerPool, read lbpool.Pool) {
	have := o.expectAnnounced(p)
	used := map[netip.Addr]bool{}
	all, of := lbpool.ByAge(o.balancers)
	for i := range o.services {
		s := &o.services[i]
		for _, a := range balancedOn(s) {
			ours := meta.FindStatusCondition(s.Status.Conditions, networkv1alpha1.ServiceLoadBalancerReady)
			if at := all.Owner(a); !lbpool.Wants(s) || at < 0 || of[at].Name != p.Name || ours == nil {
				continue
			}
			used[a] = true
			var local map[string]bool
			if s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
				local = facts.NodesWithEndpoints(slices.DeleteFunc(slices.Clone(o.slices), func(e discoveryv1.EndpointSlice) bool {
					return e.Namespace != s.Namespace || e.Labels[discoveryv1.LabelServiceName] != s.Name
				}))
			}
			want, _, _ := lbpool.Speaker(a, o.speakers(), local, have[a])
			if !read.OnSegment {
				want = ""
			}
			if want != have[a] {
				o.complain("LoadBalancerPool %s: node %q answers for %s, want %q", p.Name, have[a], a, want)
			}
		}
	}
	if int64(len(used)) != p.Status.Used {
		o.complain("LoadBalancerPool %s counts %d used addresses, want %d", p.Name, p.Status.Used, len(used))
	}
	for a := range have {
		if !used[a] {
			o.complain("LoadBalancerPool %s: node %s answers for %s, which no Service has", p.Name, have[a], a)
		}
	}
}

// speakers are the nodes that may answer. Every agent responds.
func (o *oracle) speakers() (nodes []lbpool.Node) {
	for name, node := range o.nodes {
		nn := o.networks[name]
		if nn == nil {
			continue
		}
		g, err := facts.ParseGateway(nn, node)
		if err != nil {
			continue // reported already
		}
		nodes = append(nodes, lbpool.Node{Name: name, Networks: g.Addresses, Router: g.HasRouter(),
			ByHost: g.AnswersByHost(), Healthy: true, Cordoned: node.Spec.Unschedulable})
	}
	return nodes
}

// checkBalanced compares the status of a Service with what allocating again would give.
func (o *oracle) checkBalanced(s *corev1.Service, pools []lbpool.Pool) {
	c := meta.FindStatusCondition(s.Status.Conditions, networkv1alpha1.ServiceLoadBalancerReady)
	request, err := lbpool.ParseRequest(s, o.labels[s.Namespace])
	served := lbpool.Served(request, pools) || lbpool.Holds(balancedOn(s), pools)
	if !lbpool.Wants(s) || request.Class == "" && !served {
		if c != nil || len(balancedOn(s)) > 0 {
			o.complain("service %s/%s is not served, but has %+v", s.Namespace, s.Name, s.Status)
		}
		return
	}
	want := lbpool.Assign(request, balancedOn(s), pools, o.book(s))
	if err != nil {
		want = lbpool.Keep(request, balancedOn(s), pools, o.book(s), networkv1alpha1.ReasonInvalidRequest, err.Error())
	}
	reason := want.Reason
	if reason == "" {
		reason = networkv1alpha1.ReasonAsExpected
	}
	if c == nil || c.Reason != reason || !slices.Equal(balancedOn(s), want.Addresses) {
		o.complain("service %s/%s has %v and %+v, want %+v", s.Namespace, s.Name, balancedOn(s), c, want)
	}
}

// book lists which other Service has which address. Two load balancers with one address must share it.
func (o *oracle) book(s *corev1.Service) lbpool.Book {
	book := lbpool.Book{}
	for i := range o.services {
		other := &o.services[i]
		if other.Namespace == s.Namespace && other.Name == s.Name {
			continue
		}
		use := lbpool.Use{Of: "service " + other.Namespace + "/" + other.Name}
		for _, a := range facts.ExternalAddresses(other) {
			if !slices.Contains(balancedOn(other), a) && !o.yields(other, a) {
				book[a] = append(book[a], lbpool.Use{Of: use.Of, Younger: true}) // it takes no address away
			}
		}
		use.Sharing = lbpool.SharingOf(other)
		for _, a := range balancedOn(other) {
			book[a] = append(book[a], use)
		}
	}
	return book
}

// balancedOn returns the addresses of a Service's load balancer, sorted.
func balancedOn(s *corev1.Service) (addresses []netip.Addr) {
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return nil
	}
	for _, ingress := range s.Status.LoadBalancer.Ingress {
		addresses = append(addresses, netip.MustParseAddr(ingress.IP))
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	return addresses
}
