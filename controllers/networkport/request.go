package networkport

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/topology"
)

// refusal is why a request cannot be granted. It is over only with a change of an object, which enqueues the pod.
type refusal struct{ error }

// Unwrap returns the cause.
func (r refusal) Unwrap() error { return r.error }

func refuse(format string, args ...any) error { return refusal{fmt.Errorf(format, args...)} }

func isRefusal(err error) bool {
	var refused refusal
	return errors.As(err, &refused)
}

// invalidNetwork is why an invalid Network cannot be used. What is in the database stays.
type invalidNetwork struct{ error }

// definition reads a NetworkAttachmentDefinition. A missing or malformed definition is a refusal.
func (r *Reconciler) definition(ctx context.Context, name types.NamespacedName) (networks.Definition, error) {
	var nad nadv1.NetworkAttachmentDefinition
	err := r.Client.Get(ctx, name, &nad)
	if apierrors.IsNotFound(err) {
		return networks.Definition{}, refuse("NetworkAttachmentDefinition %s does not exist", name)
	}
	if err != nil {
		return networks.Definition{}, err
	}
	definition, err := networks.ParseDefinition(&nad)
	if err == nil {
		err = definition.Secondary()
	}
	if err != nil {
		return definition, refusal{err}
	}
	return definition, nil
}

// network reads a Network. A Network that does not exist, is invalid or does not select the pod's namespace is a refusal. A pod that is
// attached keeps its interface when the Network no longer selects its namespace.
func (r *Reconciler) network(ctx context.Context, name, namespace string, attached bool) (n facts.PodNetwork, err error) {
	var o networkv1alpha1.Network
	err = r.Client.Get(ctx, types.NamespacedName{Name: name}, &o)
	if apierrors.IsNotFound(err) {
		return n, refuse("Network %s does not exist", name)
	}
	if err != nil {
		return n, err
	}
	if !attached {
		if err := r.checkNamespace(ctx, &o, namespace); err != nil {
			return n, err
		}
	}
	if n, err = facts.ParseNetwork(&o); err != nil {
		return n, refuse("%w", invalidNetwork{fmt.Errorf("Network %s: %w", name, err)})
	}
	n.MTU, err = r.mtuOf(ctx, &o)
	return n, err
}

// mtuOf returns the MTU in effect of a Network. It does not wait until the status has it.
func (r *Reconciler) mtuOf(ctx context.Context, o *networkv1alpha1.Network) (int, error) {
	if o.Spec.MTU == 0 {
		return 0, nil
	}
	var cn networkv1alpha1.ClusterNetwork
	var nodes networkv1alpha1.NodeNetworkList
	err := r.Client.Get(ctx, types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, &cn)
	if err = errors.Join(client.IgnoreNotFound(err), r.Client.List(ctx, &nodes)); err != nil {
		return 0, err
	}
	carried := facts.CarriedMTUsOf(o, cn.Spec.Encapsulation.Encryption, nodes.Items)
	return int(facts.NetworkMTU(o, carried)), nil
}

// checkNamespace refuses the pods of a namespace that a Network does not select.
func (r *Reconciler) checkNamespace(ctx context.Context, o *networkv1alpha1.Network, namespace string) error {
	in, err := kind.NamespaceLabels(ctx, r.Client, namespace)
	if err != nil {
		return err
	}
	selector, err := metav1.LabelSelectorAsSelector(o.Spec.Namespaces)
	if err != nil {
		return refuse("Network %s: spec.namespaces: %w", o.Name, err)
	}
	if !selector.Matches(in) {
		return refuse("Network %s does not select namespace %s", o.Name, namespace)
	}
	return nil
}

// unsupported returns why a Network cannot honour a request.
func unsupported(r networks.Request) error {
	switch e := r.Element; {
	case len(e.PortMappingsRequest) > 0:
		return errors.New("portMappings: a Network of Weft has none; use hostPort of the cluster network")
	case e.InfinibandGUIDRequest != "":
		return errors.New("infiniband-guid: a Network of Weft is Ethernet")
	}
	return nil
}

func bandwidthOf(r networks.Request) networkv1alpha1.Bandwidth {
	if b := r.Element.BandwidthRequest; b != nil {
		return networkv1alpha1.Bandwidth{Ingress: int64(b.IngressRate), Egress: int64(b.EgressRate)}
	}
	return networkv1alpha1.Bandwidth{}
}

// scope returns the name of a node's pods in a network's allocator. All nodes of a Network of one switch have the same.
func scope(n facts.PodNetwork, node string) string {
	if n.PerNode() {
		return node
	}
	return alloc.EveryNode
}

// assigned completes the port of an attempt whose owner has its addresses already.
func (r *Reconciler) assigned(a attempt) (topology.PodPort, bool) {
	if len(a.pools) == 0 {
		return a.withoutAddresses(), true
	}
	_, got, ok := r.Addresses.Of(a.port.Network.Name).Get(a.owner)
	return a.with(got), ok
}

func (a attempt) with(got alloc.Assignment) topology.PodPort {
	port := a.port
	port.Addresses, port.MAC, port.Slot = got.Addresses, got.MAC, got.Slot
	for _, address := range got.Addresses {
		if slices.Contains(a.floating, address.Addr()) {
			port.Floating = append(port.Floating, address.Addr())
		}
	}
	return port
}

// withoutAddresses completes the port of a pod that configures itself.
func (a attempt) withoutAddresses() topology.PodPort {
	port := a.port
	port.MAC = a.request.MAC
	if port.MAC == nil {
		port.MAC = topology.NetworkMAC(port.PortName())
	}
	return port
}

// held returns what the pod has if the attempt is granted.
func (a *attempt) held() held {
	return held{network: a.port.Network.Name, owner: a.owner}
}

// allocate gives an attempt its addresses and MAC. The error says why it cannot be granted.
func (r *Reconciler) allocate(pod types.NamespacedName, a *attempt) (topology.PodPort, error) {
	if a.failed != nil {
		return a.port, a.failed
	}
	have := a.held()
	if a.apart != nil && !r.holders.has(pod, have) {
		return a.port, fmt.Errorf("Network %s: %w", have.network, a.apart)
	}
	if err := a.checkHosts(); err != nil && !r.holders.has(pod, have) {
		return a.port, err
	}
	if len(a.pools) == 0 {
		if len(a.request.Addresses) > 0 {
			return a.port, fmt.Errorf("ips: Network %s has no addresses, its pods configure themselves", have.network)
		}
		port, addresses := a.withoutAddresses(), r.Addresses.Of(have.network)
		return port, r.granted(pod, have, func() error { return addresses.AllocateMAC(scope(port.Network, ""), a.owner, port.MAC) })
	}
	if err := checkPrefixes(a.request.Addresses, a.pools); err != nil {
		return a.port, err
	}
	addresses, on := r.Addresses.Of(have.network), scope(a.port.Network, a.port.Node)
	addresses.SetPools(on, a.pools)
	request := alloc.Request{MAC: a.request.MAC, Addresses: ipam.Addresses(a.request.Addresses), Avoid: a.avoid()}
	var got alloc.Assignment
	err := r.granted(pod, have, func() (err error) {
		if a.pool != "" {
			got, err = r.allocateFloating(a, on, request)
			return err
		}
		if a.claim != nil {
			got, err = r.allocateClaimed(pod, a, on, request)
			return err
		}
		got, err = addresses.Allocate(on, a.owner, request)
		return err
	})
	return a.with(got), err
}

// granted allocates what a pod holds from then on. If that fails, the pod waits for what others give back.
func (r *Reconciler) granted(pod types.NamespacedName, have held, allocate func() error) error {
	err := allocate()
	if err != nil {
		r.holders.waiters.Wait(pod, kind.Awaited{Network: have.network})
		err = allocate() // what was freed before the pod was known to wait woke nobody
	}
	if err != nil {
		return fmt.Errorf("Network %s: %w", have.network, err)
	}
	if r.holders.add(pod, have) {
		r.count(have.network)
	}
	return nil
}

// checkPrefixes refuses a requested prefix length that is not the subnet's. A request without a length has that of a host.
func checkPrefixes(requested []netip.Prefix, pools []alloc.Pool) error {
	for _, want := range requested {
		for _, pool := range pools {
			if pool.Subnet.Contains(want.Addr()) && !want.IsSingleIP() && want.Bits() != pool.Subnet.Bits() {
				return fmt.Errorf("ips: %s has another prefix length than its subnet %s", want, pool.Subnet)
			}
		}
	}
	return nil
}
