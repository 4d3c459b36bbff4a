package podports

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
)

// resolveHosts takes the addresses of machines on the segment of a Localnet Network from an attempt, and the addresses of EgressIPs and
// load balancers. It finds the MACs of machines if the attempt requests a MAC.
func (r *Reconciler) resolveHosts(ctx context.Context, a *attempt) error {
	if a.failed != nil || a.port.Network.Topology != networkv1alpha1.TopologyLocalnet {
		return nil
	}
	if a.request.MAC != nil {
		macs, err := kind.SegmentMACs(ctx, r.Client)
		if err != nil {
			return err
		}
		a.macs = macs
	}
	if len(a.pools) == 0 {
		return nil
	}
	hosts, err := kind.SegmentHosts(ctx, r.Client)
	if err != nil {
		return err
	}
	translated, err := kind.TranslatedAddresses(ctx, r.Client)
	if err != nil {
		return err
	}
	hosts = append(hosts, translated...)
	for i := range a.pools {
		pool := &a.pools[i]
		pool.Exclude = slices.Clip(pool.Exclude)
		for _, host := range hosts {
			if pool.Subnet.Contains(host.Address) {
				pool.Exclude = append(pool.Exclude, netip.PrefixFrom(host.Address, host.Address.BitLen()))
				a.hosts = append(a.hosts, host)
			}
		}
	}
	return nil
}

// checkHosts refuses a requested address or MAC that a machine on the segment has.
func (a *attempt) checkHosts() error {
	for _, machine := range a.macs {
		if string(machine.MAC) == a.request.MAC.String() {
			return fmt.Errorf("Network %s: requested MAC %s belongs to %s", a.port.Network.Name, machine.MAC, machine.Of)
		}
	}
	for _, want := range a.request.Addresses {
		for _, host := range a.hosts {
			if host.Address == want.Addr() {
				return fmt.Errorf("Network %s: requested address %s belongs to %s", a.port.Network.Name, host.Address, host.Of)
			}
		}
	}
	return nil
}

// refused returns requests for the pods whose requests were refused, when an address of a machine on a segment may be free.
func (r *Reconciler) refused(ctx context.Context, _ client.Object) (requests []reconcile.Request) {
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.MatchingFields{byRequest: everyPod}, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache answers; it has no errors to give once it is in sync
	}
	for i := range pods.Items {
		if isRefused(&pods.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&pods.Items[i])})
		}
	}
	return requests
}

// notCreated passes no creations: a new machine frees no address.
var notCreated = predicate.Funcs{CreateFunc: func(event.CreateEvent) bool { return false }}

// freesHosts returns the watches of machines on segments whose addresses may become free.
func (r *Reconciler) freesHosts() []kind.Watch {
	watches := append(kind.SegmentHostWatches(r.refused), kind.TranslatedWatches(r.refused)...)
	for i := range watches {
		watches[i].Predicates = append(watches[i].Predicates, notCreated)
	}
	return watches
}
