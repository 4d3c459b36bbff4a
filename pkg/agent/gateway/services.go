package gateway

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/balance"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam/reserved"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/process/trigger"
)

// CachedServices configures what an agent's cache holds of services, their endpoints and what decides about their addresses.
func CachedServices(node string) map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&corev1.Service{}: {
			Label: without(names.ServiceProxyLabel),
			Transform: func(object any) (any, error) {
				if s, ok := object.(*corev1.Service); ok {
					return desired.StripService(s), nil
				}
				return object, nil
			},
		},
		&networkv1alpha1.IPPool{}:   {Transform: cache.TransformStripManagedFields()},
		&networkv1alpha1.EgressIP{}: {Transform: cache.TransformStripManagedFields()},
		&discoveryv1.EndpointSlice{}: {
			Label: without(corev1.IsHeadlessService),
			Transform: func(object any) (any, error) {
				if s, ok := object.(*discoveryv1.EndpointSlice); ok {
					return desired.StripSlice(s, node), nil
				}
				return object, nil
			},
		},
	}
}

// without selects objects without a label. An error is impossible, because the keys are valid constants.
func without(key string) labels.Selector {
	selector := labels.NewSelector()
	if r, err := labels.NewRequirement(key, selection.DoesNotExist, nil); err == nil {
		selector = selector.Add(*r)
	}
	return selector
}

// Services holds what clients outside can connect to at this node. It is used only after all services have been read.
// Otherwise each start of the agent would disconnect the services that are still missing.
type Services struct {
	reader  balance.Reader
	checks  *HealthChecks
	health  *ProxyHealth
	events  events.EventRecorder
	changed func()

	mu     sync.Mutex
	byName map[types.NamespacedName][]desired.Frontend // nil: not read yet
	udp    map[types.NamespacedName]desired.Backends   // desired.UDPBackends of services that have some
	vips   map[types.NamespacedName]balancer           // of load balancers
	place  desired.Place
	// servers are the API servers, from the endpoints of their service.
	servers []reserved.Destination

	stale staleEntries
}

// NewServices returns the services of a node. changed is called when the frontends or the API servers change.
func NewServices(c client.Reader, health *ProxyHealth, recorder events.EventRecorder, node string, changed func()) *Services {
	return &Services{reader: balance.Reader{Reader: c}, checks: NewHealthChecks(health.isHealthy), health: health, events: recorder,
		changed: changed, place: desired.Place{Node: facts.ServiceNode{Name: node}}}
}

// apiServer is the Service whose endpoints are the API servers.
var apiServer = types.NamespacedName{Namespace: corev1.NamespaceDefault, Name: "kubernetes"}

// at sets the place, because which endpoints a host chooses depends on it. It must be called after
// the services have been read.
func (s *Services) at(ctx context.Context, place desired.Place) error {
	s.mu.Lock()
	same := s.place.Equal(place)
	s.place = place
	s.mu.Unlock()
	if same {
		return nil
	}
	return s.read(ctx)
}

// Reconcile implements reconcile.Reconciler.
func (s *Services) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if !s.isRead() {
		if err := s.begin(ctx); err != nil {
			return ctrl.Result{}, err
		}
	}
	service := &corev1.Service{}
	err := s.reader.Get(ctx, req.NamespacedName, service)
	if apierrors.IsNotFound(err) {
		service, err = nil, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	frontends, udp, err := s.frontendsOf(ctx, req.NamespacedName, service)
	if err != nil {
		return ctrl.Result{}, err
	}
	servers, err := s.listServers(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	s.mu.Lock()
	differs := !reflect.DeepEqual(s.byName[req.NamespacedName], frontends) || !slices.Equal(s.servers, servers)
	s.servers = servers
	put(s.byName, req.NamespacedName, frontends, len(frontends) > 0)
	stale := desired.StaleBackends(s.udp[req.NamespacedName], udp)
	put(s.udp, req.NamespacedName, udp, len(udp) > 0)
	vips := balancerOf(service)
	leaves := s.vips[req.NamespacedName].leaves != vips.leaves
	put(s.vips, req.NamespacedName, vips, len(vips.addresses) > 0)
	s.mu.Unlock()
	s.stale.keep(udp)
	s.stale.add(stale)
	var endpoints []discoveryv1.EndpointSlice
	if service != nil {
		if endpoints, err = s.reader.Endpoints(ctx, service); err != nil {
			return ctrl.Result{}, err
		}
	}
	s.health.queue(req.NamespacedName, balance.NewestCause(endpoints), differs)
	if differs || leaves || len(stale) > 0 {
		s.changed()
	}
	return ctrl.Result{}, s.check(req.NamespacedName, service, endpoints)
}

// check updates the health check of a service. service is nil if it does not exist.
func (s *Services) check(name types.NamespacedName, service *corev1.Service, endpoints []discoveryv1.EndpointSlice) error {
	if service == nil {
		s.checks.forget(name)
		s.health.forget(name)
		return nil
	}
	s.mu.Lock()
	node := s.place.Node.Name
	s.mu.Unlock()
	parsed, _ := facts.ParseService(service, nil, nil)
	var ready localEndpoints
	if parsed.HealthCheckPort != 0 {
		ready.ipv4, ready.ipv6 = facts.ReadyOn(desired.Unmerged(endpoints), node)
	}
	err := s.checks.set(name, parsed.HealthCheckPort, ready)
	if err != nil {
		s.events.Eventf(service, nil, corev1.EventTypeWarning, "HealthCheckPortTaken", "Balance", "node %s: %v; it is tried again", node, err)
	}
	return err
}

// begin reads the services for the first time and calls changed, because the reconciler waits for that.
func (s *Services) begin(ctx context.Context) error {
	err := s.read(ctx)
	if err == nil {
		s.changed()
	}
	return err
}

// read reads all services. The caches must be synced.
func (s *Services) read(ctx context.Context) error {
	var list corev1.ServiceList
	if err := s.reader.List(ctx, &list); err != nil {
		return fmt.Errorf("list services: %w", err)
	}
	all, allUDP := map[types.NamespacedName][]desired.Frontend{}, map[types.NamespacedName]desired.Backends{}
	allVIPs := map[types.NamespacedName]balancer{}
	for i := range list.Items {
		name := client.ObjectKeyFromObject(&list.Items[i])
		frontends, udp, err := s.frontendsOf(ctx, name, &list.Items[i])
		if err != nil {
			return err
		}
		put(all, name, frontends, len(frontends) > 0)
		put(allUDP, name, udp, len(udp) > 0)
		vips := balancerOf(&list.Items[i])
		put(allVIPs, name, vips, len(vips.addresses) > 0)
	}
	servers, err := s.listServers(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.byName, s.udp, s.vips, s.servers = all, allUDP, allVIPs, servers
	s.mu.Unlock()
	return nil
}

// put sets or deletes an element.
func put[V any](m map[types.NamespacedName]V, name types.NamespacedName, value V, present bool) {
	if present {
		m[name] = value
	} else {
		delete(m, name)
	}
}

// listServers reads the addresses of the API servers.
func (s *Services) listServers(ctx context.Context) (found []reserved.Destination, err error) {
	var list discoveryv1.EndpointSliceList
	err = s.reader.List(ctx, &list, client.InNamespace(apiServer.Namespace), client.MatchingFields{balance.ByService: apiServer.Name})
	if err != nil {
		return nil, fmt.Errorf("list the API server's endpoints: %w", err)
	}
	for i := range list.Items {
		found = append(found, desired.Servers(&list.Items[i])...)
	}
	return found, nil
}

// apiServers returns the addresses of the API servers.
func (s *Services) apiServers() []reserved.Destination {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.servers
}

// frontendsOf computes the frontends of a service, and desired.UDPBackends. service is nil if it does not exist.
func (s *Services) frontendsOf(ctx context.Context, name types.NamespacedName, service *corev1.Service) (
	[]desired.Frontend, desired.Backends, error,
) {
	if service == nil {
		return nil, nil, nil
	}
	stripped, err := s.reader.Endpoints(ctx, service)
	if err != nil {
		return nil, nil, fmt.Errorf("service %s: list its endpoints: %w", name, err)
	}
	s.mu.Lock()
	place := s.place
	s.mu.Unlock()
	parsed, _ := facts.ParseService(service, desired.Unmerged(stripped), nil)
	if _, _, err := s.reader.Yield(ctx, service, &parsed); err != nil { // the operator reports what it refuses
		return nil, nil, fmt.Errorf("service %s: read who has its addresses: %w", name, err)
	}
	frontends, requested := desired.Frontends(parsed, place), facts.ExternalIPs(service)
	for i := range frontends {
		frontends[i].Requested = slices.Contains(requested, frontends[i].Address)
	}
	return frontends, desired.UDPBackends(parsed, place.Node.Name), nil
}

// balancer are a service's addresses of load balancers. leaves is whether the service requests that its pods leave with them.
type balancer struct {
	addresses []netip.Addr
	leaves    bool
}

// balancerOf reads a service. It is nil if it does not exist.
func balancerOf(service *corev1.Service) (b balancer) {
	if service == nil {
		return b
	}
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		if a, err := netip.ParseAddr(ingress.IP); err == nil { // else a host name
			b.addresses = append(b.addresses, a)
		}
	}
	requested, err := networkv1alpha1.ParseEgressSource(service.Annotations)
	b.leaves = err == nil && requested && len(b.addresses) > 0
	return b
}

// owners returns who has the addresses of load balancers and egress IPs, as in desired.Sources, and the names with pods that leave with
// their addresses. EgressIPs have them on any node.
func (s *Services) owners(ctx context.Context) (found map[netip.Addr][]string, leaving map[string]bool, err error) {
	found, leaving = map[netip.Addr][]string{}, map[string]bool{}
	var all networkv1alpha1.EgressIPList
	if err := s.reader.List(ctx, &all); err != nil {
		return nil, nil, fmt.Errorf("list EgressIPs: %w", err)
	}
	for i := range all.Items {
		leaving[all.Items[i].Name] = true
		for _, a := range facts.GrantedEgressAddresses(&all.Items[i]) {
			found[a] = append(found[a], all.Items[i].Name)
		}
	}
	s.mu.Lock()
	for key, b := range s.vips {
		name := facts.EgressNameOf(key.Namespace, key.Name)
		leaving[name] = b.leaves
		for _, a := range b.addresses {
			found[a] = append(found[a], name)
		}
	}
	s.mu.Unlock()
	for _, owners := range found {
		slices.Sort(owners)
	}
	return found, leaving, nil
}

func (s *Services) isRead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byName != nil
}

// frontends returns all frontends, sorted by service. ok is false until the services have been read.
func (s *Services) frontends() (all []desired.Frontend, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := slices.SortedFunc(maps.Keys(s.byName), func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, name := range names {
		all = append(all, s.byName[name]...)
	}
	return all, s.byName != nil
}

// ownerOf returns the service whose node port a port is.
func (s *Services) ownerOf(protocol string, port uint16) (owner string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, frontends := range s.byName {
		for i := range frontends {
			if f := &frontends[i]; f.NodePort == port && strings.EqualFold(string(f.Protocol), protocol) {
				return "the node port of service " + name.String(), true
			}
		}
	}
	return "", false
}

// Register adds the services' controller to a manager.
func (s *Services) Register(ctx context.Context, mgr ctrl.Manager) error {
	for _, index := range []struct {
		object client.Object
		field  string
		values client.IndexerFunc
	}{
		{&discoveryv1.EndpointSlice{}, balance.ByService, balance.IndexByService},
		{&corev1.Service{}, balance.ByAddress, balance.IndexByAddress},
		{&corev1.Service{}, balance.ByExposed, balance.IndexByExposed},
	} {
		if err := mgr.GetFieldIndexer().IndexField(ctx, index.object, index.field, index.values); err != nil {
			return fmt.Errorf("index %s: %w", index.field, err)
		}
	}
	return ctrl.NewControllerManagedBy(mgr).Named("services").
		WithOptions(controller.Options{RateLimiter: trigger.Retries()}).
		For(&corev1.Service{}).
		Watches(&corev1.Service{}, handler.EnqueueRequestsFromMapFunc(s.reader.RequestSharing)).
		Watches(&networkv1alpha1.IPPool{}, handler.EnqueueRequestsFromMapFunc(s.reader.RequestExposed),
			builder.WithPredicates(balance.InForceChanged())).
		Watches(&discoveryv1.EndpointSlice{}, handler.EnqueueRequestsFromMapFunc(serviceOf),
			builder.WithPredicates(trigger.Changed(endpointsChanged))).
		Complete(s)
}

// Checks serves the health checks of services until its context ends.
func (s *Services) Checks(ctx context.Context) error { return s.checks.Run(ctx) }

// Run reads the services once, because a cluster without services causes no reconciliation.
func (s *Services) Run(mgr ctrl.Manager) func(context.Context) error {
	return func(ctx context.Context) error {
		if !mgr.GetCache().WaitForCacheSync(ctx) || s.isRead() {
			return nil
		}
		return s.begin(ctx)
	}
}

func serviceOf(_ context.Context, object client.Object) []reconcile.Request {
	name := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetLabels()[discoveryv1.LabelServiceName]}
	return []reconcile.Request{{NamespacedName: name}}
}

// endpointsChanged reports whether an update changes what the agent keeps of a slice.
func endpointsChanged(before, after *discoveryv1.EndpointSlice) bool {
	return !reflect.DeepEqual(before.Endpoints, after.Endpoints) || !reflect.DeepEqual(before.Ports, after.Ports) ||
		before.AddressType != after.AddressType || !maps.Equal(before.Labels, after.Labels)
}
