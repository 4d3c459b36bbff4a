package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	policyv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/egressfirewall"
	"github.com/weft-network/weft/controllers/egressip"
	"github.com/weft-network/weft/controllers/gateway"
	"github.com/weft-network/weft/controllers/network"
	"github.com/weft-network/weft/controllers/node"
	"github.com/weft-network/weft/controllers/overlay"
	"github.com/weft-network/weft/controllers/pod"
	"github.com/weft-network/weft/controllers/policy"
	"github.com/weft-network/weft/controllers/service"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/resolver"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/trigger"
)

// origin is what a simulation starts from: the reconcilers that work, and what they know.
type origin struct {
	objects   client.Client
	addresses *alloc.Allocator
	nodes     *node.Reconciler
	gateways  *gateway.Reconciler
	pods      *pod.Reconciler
	answers   *resolver.Names
	egress    *egressip.Reconciler
	policies  *policy.Reconciler
	// known are the kinds of policies that the API server has.
	known *policy.Known
}

// simulation runs the real reconcilers on a copy of the world: objects are written to an overlay, units are only noted, and
// addresses are given by a clone of the allocator.
type simulation struct {
	before   client.Reader // the objects as they are
	objects  *overlay.Client
	database *recorder
	notes    *notes
	known    *policy.Known

	services    *service.Reconciler
	nodeSets    *egressfirewall.Nodes
	egress      *egressip.Reconciler
	reconcilers map[string]reconcile.Reconciler
	triggers    map[string]*trigger.Trigger // what a reconciler was asked for by others
	queues      map[string][]types.NamespacedName
	queued      map[request]bool
	seen        map[request]bool
	changed     []client.Object               // written and not followed yet
	laid        map[types.NamespacedName]bool // objects of the question
}

// request asks for a reconciliation.
type request struct {
	kind string
	name types.NamespacedName
}

// kinds lists the kinds of units, those that others build on first.
var kinds = [...]string{topology.KindNetwork, topology.KindNode, topology.KindGateway, topology.KindPod, topology.KindService, topology.KindEgressIP,
	topology.KindNodes, topology.KindDNS, topology.KindEgressFirewall, topology.KindPodGroup, topology.KindPodSet, topology.KindNetworkPolicy,
	topology.KindClusterNetworkPolicy, topology.KindAdminNetworkPolicy, topology.KindBaselineAdminNetworkPolicy}

// newSimulation copies the present; ok is false while the addresses in use are not known.
func newSimulation(from origin) (s *simulation, ok bool) {
	s = &simulation{
		before: from.objects, database: newRecorder(), notes: &notes{}, triggers: map[string]*trigger.Trigger{}, queues: map[string][]types.NamespacedName{},
		queued: map[request]bool{}, seen: map[request]bool{}, laid: map[types.NamespacedName]bool{},
	}
	for _, kind := range kinds {
		s.triggers[kind] = &trigger.Trigger{}
	}
	s.objects = overlay.New(from.objects, func(o client.Object) { s.changed = append(s.changed, o) })
	s.objects.Index(gateway.ByAddress, gateway.IndexByAddress)
	s.objects.Index(node.ByClaim, node.IndexByClaim)
	s.objects.Index(service.ByService, service.IndexByService)
	s.objects.Index(service.ByAddress, service.IndexByAddress)
	s.objects.Index(service.ByNodes, service.IndexByNodes)
	s.objects.Index(egressfirewall.BySet, egressfirewall.IndexBySet)
	// The pods' memory comes before the addresses: an address that it speaks of must be in the clone.
	selectors := from.policies.Selectors.Fork(s.triggers)
	pods, ok := from.pods.Fork(s.objects, s.database, nil, s.notes, s.triggers[topology.KindPod], selectors)
	addresses := from.addresses.Clone()
	pods.Addresses = addresses
	s.database.has = from.egress.Database.Has
	s.egress = &egressip.Reconciler{Client: s.objects, Database: s.database, Events: s.notes, Trigger: s.triggers[topology.KindEgressIP],
		Reachable: from.egress.Reachable, ServicesByAddress: service.ByAddress}
	s.services = &service.Reconciler{Client: s.objects, Database: s.database, Events: s.notes, Trigger: s.triggers[topology.KindService]}
	s.nodeSets = &egressfirewall.Nodes{Client: s.objects, Database: s.database, Trigger: s.triggers[topology.KindNodes], Firewalls: s.triggers[topology.KindEgressFirewall]}
	nodes := from.nodes.Fork(s.objects, s.database, addresses, s.notes, s.triggers[topology.KindNode])
	nodes.Removed = func(owners []string) { askFor(s.triggers[topology.KindPod], owners) }
	nodes.Vacated = s.triggers[topology.KindGateway].Enqueue
	s.database.before = from.gateways.Database.RowsOf
	s.reconcilers = map[string]reconcile.Reconciler{
		topology.KindNetwork: &network.Reconciler{Client: s.objects, Database: s.database, Addresses: addresses, Events: s.notes, Trigger: s.triggers[topology.KindNetwork]},
		topology.KindNode:    nodes,
		topology.KindGateway: &gateway.Reconciler{Client: s.objects, Database: s.database, Events: s.notes, Trigger: s.triggers[topology.KindGateway], HasNone: nodes.HasNone},
		topology.KindPod:     pods,
		topology.KindService: s.services,
		topology.KindEgressFirewall: &egressfirewall.Reconciler{Client: s.objects, Database: s.database, Names: from.answers, Events: s.notes,
			Trigger: s.triggers[topology.KindEgressFirewall], Sets: s.triggers},
		topology.KindNodes: s.nodeSets,
		topology.KindDNS: &egressfirewall.DNS{Client: s.objects, Database: s.database, Resolver: egressfirewall.Frozen{Names: from.answers},
			Trigger: s.triggers[topology.KindDNS], Firewalls: s.triggers[topology.KindEgressFirewall]},

		topology.KindEgressIP: s.egress,
	}
	policies := &policy.Reconciler{Client: s.objects, Database: s.database, Selectors: selectors, Events: s.notes, Trigger: s.triggers[topology.KindNetworkPolicy]}
	s.known, s.reconcilers[topology.KindNetworkPolicy] = from.known, policies
	for _, cluster := range policies.AddClusters(from.known, s.triggers) {
		s.reconcilers[cluster.Kind.Name] = cluster
	}
	s.reconcilers[topology.KindPodGroup] = policy.Groups(policies, s.triggers[topology.KindPodGroup])
	s.reconcilers[topology.KindPodSet] = policy.Addresses(policies, s.triggers[topology.KindPodSet])
	return s, ok
}

// run reconciles until nothing asks for more.
func (s *simulation) run(ctx context.Context) error {
	for runs := 0; ; runs++ {
		if err := s.follow(ctx); err != nil {
			return err
		}
		next, ok := s.next()
		if !ok {
			return nil
		}
		const enough = 100 // reconciliations of one object; a few are usual
		if runs > enough*len(s.seen) {
			return fmt.Errorf("the plan does not come to an end: %s %s is reconciled again and again", next.kind, next.name)
		}
		if _, err := s.reconcilers[next.kind].Reconcile(ctx, ctrl.Request{NamespacedName: next.name}); err != nil {
			return fmt.Errorf("plan of %s %s: %w", next.kind, next.name, err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// next takes a request from the first kind that has one.
func (s *simulation) next() (request, bool) {
	for _, kind := range kinds {
		if queue := s.queues[kind]; len(queue) > 0 {
			s.queues[kind] = queue[1:]
			next := request{kind, queue[0]}
			delete(s.queued, next)
			return next, true
		}
	}
	return request{}, false
}

func (s *simulation) ask(kind string, names ...types.NamespacedName) {
	for _, name := range names {
		if r := (request{kind, name}); !s.queued[r] {
			s.queued[r], s.seen[r] = true, true
			s.queues[kind] = append(s.queues[kind], name)
		}
	}
}

// follow asks for what written objects and the reconcilers' triggers ask for.
func (s *simulation) follow(ctx context.Context) error {
	changed := s.changed
	s.changed = nil
	for _, object := range changed {
		if err := s.concerned(ctx, object); err != nil {
			return err
		}
	}
	for kind, t := range s.triggers {
		for _, r := range t.Take() {
			s.ask(kind, r.NamespacedName)
		}
	}
	return nil
}

// concerned asks for all that may depend on an object. It knows no predicates: who is asked for nothing does nothing.
func (s *simulation) concerned(ctx context.Context, object client.Object) error {
	name := client.ObjectKeyFromObject(object)
	switch object.(type) {
	case *networkv1alpha1.ClusterNetwork:
		s.ask(topology.KindNetwork, network.Name)
		s.askForEgressIPs(s.egress.Every(ctx))
		var nodes corev1.NodeList
		if err := s.objects.List(ctx, &nodes); err != nil {
			return err
		}
		for i := range nodes.Items {
			s.ask(topology.KindNode, types.NamespacedName{Name: nodes.Items[i].Name})
		}
		if err := s.askForFirewalls(ctx); err != nil {
			return err
		}
		return s.askForPods(ctx, func(*corev1.Pod) bool { return true })
	case *corev1.Node:
		s.ask(topology.KindNetwork, network.Name)
		s.ask(topology.KindNode, name)
		s.ask(topology.KindGateway, name)
		s.askForServices(ctx, object)
		s.askForEgressIPs(s.egress.Every(ctx))
		for _, set := range s.nodeSets.InUse(ctx, object) {
			s.ask(topology.KindNodes, set.NamespacedName)
		}
	case *networkv1alpha1.EgressFirewall:
		s.ask(topology.KindEgressFirewall, name)
		before := &networkv1alpha1.EgressFirewall{}
		if err := s.before.Get(ctx, name, before); client.IgnoreNotFound(err) != nil {
			return err
		}
		for _, set := range append(egressfirewall.SetsOf(object), egressfirewall.SetsOf(before)...) {
			s.ask(set.Kind(), trigger.NameOf(set))
		}
	case *networkv1alpha1.NodeNetwork:
		s.ask(topology.KindNetwork, network.Name)
		s.ask(topology.KindNode, name)
		s.ask(topology.KindGateway, name)
		s.askForServices(ctx, object)
		s.askForEgressIPs(s.egress.Every(ctx))
		return s.askForPods(ctx, func(p *corev1.Pod) bool { return p.Spec.NodeName == name.Name })
	case *corev1.Namespace:
		return s.askForPods(ctx, func(p *corev1.Pod) bool { return p.Namespace == name.Name })
	case *corev1.Pod:
		s.ask(topology.KindPod, name)
	case *networkingv1.NetworkPolicy:
		s.ask(topology.KindNetworkPolicy, name)
	case *policyv1alpha2.ClusterNetworkPolicy:
		s.ask(topology.KindClusterNetworkPolicy, name)
	case *policyv1alpha1.AdminNetworkPolicy:
		s.ask(topology.KindAdminNetworkPolicy, name)
	case *policyv1alpha1.BaselineAdminNetworkPolicy:
		s.ask(topology.KindBaselineAdminNetworkPolicy, name)
	case *networkv1alpha1.EgressIP:
		s.ask(topology.KindEgressIP, name)
		s.askForEgressIPs(s.egress.Every(ctx))
		return s.askForPods(ctx, func(*corev1.Pod) bool { return true })
	case *corev1.Service:
		s.ask(topology.KindService, name)
		s.askForEgressIPs(s.egress.On(ctx, object))
		for _, other := range s.services.Sharing(ctx, object) {
			s.ask(topology.KindService, other.NamespacedName)
		}
	case *discoveryv1.EndpointSlice:
		for _, of := range service.IndexByService(object) {
			s.ask(topology.KindService, types.NamespacedName{Namespace: name.Namespace, Name: of})
		}
	}
	return nil
}

func (s *simulation) askForEgressIPs(requests []ctrl.Request) {
	for _, r := range requests {
		s.ask(topology.KindEgressIP, r.NamespacedName)
	}
}

// askForServices asks for the services that a node may change.
// askForFirewalls asks for all of them.
func (s *simulation) askForFirewalls(ctx context.Context) error {
	var firewalls networkv1alpha1.EgressFirewallList
	if err := s.objects.List(ctx, &firewalls); err != nil {
		return err
	}
	for i := range firewalls.Items {
		s.ask(topology.KindEgressFirewall, client.ObjectKeyFromObject(&firewalls.Items[i]))
	}
	return nil
}

func (s *simulation) askForServices(ctx context.Context, node client.Object) {
	for _, of := range s.services.PerNode(ctx, node) {
		s.ask(topology.KindService, of.NamespacedName)
	}
}

// askForPods asks for the pods that which accepts, in the order of their names.
func (s *simulation) askForPods(ctx context.Context, which func(*corev1.Pod) bool) error {
	pods, err := s.podsThat(ctx, which)
	s.ask(topology.KindPod, pods...)
	return err
}
