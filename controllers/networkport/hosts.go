package networkport

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
	"github.com/weft-network/weft/pkg/networks"
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
	if err := r.resolveForeign(ctx, a); err != nil {
		return err
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
func (r *Reconciler) refused(ctx context.Context, _ client.Object) []reconcile.Request {
	return kind.RequestsIf(ctx, r.Client, &corev1.PodList{}, isRefused, client.MatchingFields{byRequest: everyPod})
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

// resolveForeign finds the hosts on the segment of a Localnet Network that answered for addresses of pods.
func (r *Reconciler) resolveForeign(ctx context.Context, a *attempt) error {
	var nodes networkv1alpha1.NodeNetworkList
	err := r.Client.List(ctx, &nodes)
	for i := range nodes.Items {
		for _, host := range nodes.Items[i].Status.ForeignHosts {
			address, err := host.Address.Addr()
			if err == nil && string(host.PhysicalNetwork) == a.port.Network.PhysicalNetwork && int(host.VLAN) == a.port.Network.VLAN {
				a.foreign = append(a.foreign, foreignHost{address, host.MACAddress, nodes.Items[i].Name})
			}
		}
	}
	return err
}

// foreignHost is a host on a segment that answered for an address which a pod was to get.
type foreignHost struct {
	address netip.Addr
	mac     networkv1alpha1.MACAddress
	seenBy  string // a node
}

// avoid lists the addresses for which foreign hosts answered.
func (a *attempt) avoid() (addresses []netip.Addr) {
	for _, host := range a.foreign {
		addresses = append(addresses, host.address)
	}
	return addresses
}

// foreignOf returns a host that answered for one of the addresses, or nil.
func (a *attempt) foreignOf(addresses []netip.Prefix) *foreignHost {
	for i, host := range a.foreign {
		if slices.ContainsFunc(addresses, func(p netip.Prefix) bool { return p.Addr() == host.address }) {
			return &a.foreign[i]
		}
	}
	return nil
}

// evades reports whether the pod gets other addresses than it was given: a foreign host answered for one of them before the pod had
// the interface, and neither the pod nor an object names the address.
func (r *Reconciler) evades(pod *corev1.Pod, a *attempt) bool {
	if a.failed != nil || a.pool != "" || a.claim != nil {
		return false
	}
	_, got, ok := r.Addresses.Of(a.port.Network.Name).Get(a.owner)
	if !ok {
		return false
	}
	host := a.foreignOf(got.Addresses)
	if host == nil || slices.ContainsFunc(a.request.Addresses, func(p netip.Prefix) bool { return p.Addr() == host.address }) {
		return false
	}
	reported, err := networks.ParseStatus(pod.Annotations)
	_, has := reported[a.request.Interface]
	return err == nil && !has
}

// foreignChanged passes the changes of the hosts that answered for addresses of pods.
func foreignChanged(before, after *networkv1alpha1.NodeNetwork) bool {
	return !slices.EqualFunc(before.Status.ForeignHosts, after.Status.ForeignHosts, func(b, a networkv1alpha1.ForeignHost) bool {
		return b.PhysicalNetwork == a.PhysicalNetwork && b.VLAN == a.VLAN && b.Address == a.Address && b.MACAddress == a.MACAddress
	})
}
