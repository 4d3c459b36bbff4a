package service

import (
	"context"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/balance"
	"github.com/weft-network/weft/pkg/facts"
)

// At returns a request for each service with one of these addresses. If an API server has one of them, node ports
// depend on it too.
func (r *Reconciler) At(ctx context.Context, addresses []netip.Addr) (requests []reconcile.Request) {
	servers, err := r.Reserved.ForNode(ctx, "")
	if err != nil {
		return r.reader().RequestExposed(ctx, nil)
	}
	for _, address := range addresses {
		if servers.Has(address) {
			return r.reader().RequestExposed(ctx, nil)
		}
		requests = append(requests, r.reader().Request(ctx, client.MatchingFields{balance.ByAddress: address.String()})...)
	}
	return requests
}

// owners enqueues the services that have an address which an object gained or lost. of returns the addresses of an object.
func (r *Reconciler) owners(of func(metav1.Object) []netip.Addr) handler.Funcs {
	return kind.Changes(func(o client.Object) []netip.Addr { return of(o) }, r.At)
}

// holders enqueues the services with external IPs at a port of nodes that an object gained or lost. of returns the ports of an object.
func (r *Reconciler) holders(of func(client.Object) []string) handler.Funcs {
	return kind.Changes(of, func(ctx context.Context, ports []string) (requests []reconcile.Request) {
		for _, port := range ports {
			requests = append(requests, r.reader().Request(ctx, client.MatchingFields{ByExternalPort: port})...)
		}
		return requests
	})
}

// nodePorts returns the node ports of a service.
func nodePorts(o client.Object) []string {
	if service, ok := o.(*corev1.Service); ok {
		return facts.NodePorts(service)
	}
	return nil
}

// hostPorts returns the host ports of a pod while it has a node and a port there.
func hostPorts(o client.Object) (found []string) {
	pod, ok := o.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" || !facts.WantsPort(pod) {
		return nil
	}
	ports, _ := facts.HostPorts(pod)
	for _, port := range ports {
		found = append(found, facts.NodePort(port.Protocol, port.Port))
	}
	return found
}

// grantedAddresses returns the addresses that an EgressIP was granted.
func grantedAddresses(o metav1.Object) []netip.Addr {
	if e, ok := o.(*networkv1alpha1.EgressIP); ok {
		return facts.GrantedEgressAddresses(e)
	}
	return nil
}

// reservedChanged passes updates of the ClusterNetwork that change the reservations.
func reservedChanged(before, after *networkv1alpha1.ClusterNetwork) bool {
	return !equality.Semantic.DeepEqual(before.Spec.ReservedPorts, after.Spec.ReservedPorts) ||
		!equality.Semantic.DeepEqual(before.Spec.ClusterNetwork, after.Spec.ClusterNetwork) ||
		!equality.Semantic.DeepEqual(before.ServiceNetworks(), after.ServiceNetworks())
}

// hopsChanged passes updates of an ExternalRoute that change the routers that it watches.
func hopsChanged(before, after *networkv1alpha1.ExternalRoute) bool {
	return !slices.Equal(facts.WatchedHops(before), facts.WatchedHops(after))
}
