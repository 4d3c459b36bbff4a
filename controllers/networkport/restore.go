package networkport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/topology"
)

// restoration runs once, before the first address is given.
type restoration struct {
	mu   sync.Mutex  // held while it runs, which waits for the database
	done atomic.Bool // read without mu, so that the status of a Network does not wait for the database
}

// restore fills the allocators from the ports that exist, and from what pods report whose ports the database has lost. Ports of pods that
// are gone keep their addresses until the sweep has removed them, unless a running pod reports the addresses: the database may come from a
// backup.
func (r *Reconciler) restore(ctx context.Context) error {
	r.restored.mu.Lock()
	defer r.restored.mu.Unlock()
	if r.restored.done.Load() {
		return nil
	}
	if err := r.restorePools(ctx); err != nil {
		return err
	}
	ports, err := r.Database.Ports(ctx)
	if err != nil {
		return fmt.Errorf("restore addresses of networks: %w", err)
	}
	var pods corev1.PodList
	// They are only read.
	if err := r.Client.List(ctx, &pods, client.MatchingFields{byRequest: everyPod}); err != nil {
		return err
	}
	exists := make(map[string]bool, len(pods.Items)) // by UID
	for i := range pods.Items {
		exists[networkv1alpha1.InterfaceUID(&pods.Items[i])] = true
	}
	r.restorePorts(ctx, ports, func(port topology.PodPortRow) bool { return exists[port.UID] })
	if err := r.restoreReported(ctx, pods.Items); err != nil {
		return fmt.Errorf("restore addresses that pods report: %w", err)
	}
	r.restorePorts(ctx, ports, func(port topology.PodPortRow) bool { return !exists[port.UID] })
	if err := r.restoreClaims(ctx); err != nil {
		return fmt.Errorf("restore addresses of IPAMClaims: %w", err)
	}
	r.restored.done.Store(true)
	r.Detached.Publish(struct{}{})
	return r.enqueueNetworks(ctx)
}

// attached counts the interfaces of pods on a Network, by namespace.
func (r *Reconciler) attached(network string) (byNamespace map[string]int, known bool) {
	known = r.restored.done.Load() // before the count, which is complete from then on
	return r.holders.attached(network), known
}

// onSegments lists the attachments of a node's pods to Localnet Networks, sorted: physical network -> "demo/web@net1". known is false
// while pods of the node request Networks, and the ports that exist were not read.
func (r *Reconciler) onSegments(ctx context.Context, node string) (
	users map[networkv1alpha1.PhysicalNetworkName][]string, known bool) {
	restored := r.restored.done.Load() // before the attachments, which are complete from then on
	physical := map[string]networkv1alpha1.PhysicalNetworkName{}
	var networks networkv1alpha1.NetworkList
	var pods corev1.PodList
	// They are only read.
	err := errors.Join(r.Client.List(ctx, &networks),
		r.Client.List(ctx, &pods, client.MatchingFields{byRequest: "node/" + node}))
	if err != nil || !restored {
		return nil, err == nil && len(pods.Items) == 0
	}
	for i := range networks.Items {
		physical[networks.Items[i].Name] = networks.Items[i].Spec.PhysicalNetwork
	}
	users = map[networkv1alpha1.PhysicalNetworkName][]string{}
	for i := range pods.Items {
		for _, have := range r.holders.of(client.ObjectKeyFromObject(&pods.Items[i])) {
			if name := physical[have.network]; name != "" {
				users[name] = append(users[name], userName(have.owner))
			}
		}
	}
	for _, all := range users {
		slices.Sort(all)
	}
	return users, true
}

// enqueueNetworks enqueues each Network, whose attachments are known now.
func (r *Reconciler) enqueueNetworks(ctx context.Context) error {
	var all networkv1alpha1.NetworkList
	if err := r.Client.List(ctx, &all); err != nil {
		return err
	}
	for i := range all.Items {
		r.count(all.Items[i].Name)
	}
	return nil
}

// restorePools describes the addresses of each Network.
func (r *Reconciler) restorePools(ctx context.Context) error {
	var all networkv1alpha1.NetworkList
	var nodes networkv1alpha1.NodeNetworkList
	if err := r.Client.List(ctx, &all); err != nil {
		return err
	}
	if err := r.Client.List(ctx, &nodes); err != nil {
		return err
	}
	for i := range all.Items {
		n, err := facts.ParseNetwork(&all.Items[i])
		if err != nil {
			continue // its condition says so
		}
		addresses := r.Addresses.Of(n.Name)
		if !n.PerNode() {
			pools, _ := n.Pools("", 0)
			addresses.SetPools(scope(n, ""), pools)
			continue
		}
		for j := range nodes.Items {
			if pools, err := n.Pools(nodes.Items[j].Name, int(nodes.Items[j].Spec.NodeID)); err == nil {
				addresses.SetPools(scope(n, nodes.Items[j].Name), pools)
			}
		}
	}
	return nil
}

// restorePorts restores the addresses of the ports for which some returns true.
func (r *Reconciler) restorePorts(ctx context.Context, ports []*nbdb.LogicalSwitchPort, some func(topology.PodPortRow) bool) {
	for _, row := range ports {
		switch port, ok, err := topology.ParsePodPortsRow(row); {
		case err != nil:
			ctrl.LoggerFrom(ctx).Info("port cannot be read", "port", row.Name, "reason", err.Error())
		case ok && some(port):
			r.restorePort(ctx, port, row.ExternalIDs[ovnexpr.RequestKey])
		}
	}
}

// restorePort restores the addresses of a port. Even if that fails, the pod has a port, which must go with the pod.
func (r *Reconciler) restorePort(ctx context.Context, port topology.PodPortRow, hash string) {
	pod := types.NamespacedName{Namespace: port.Namespace, Name: port.Name}
	have := held{network: port.Network, owner: alloc.AttachmentOwner(pod, port.UID, port.Interface, hash)}
	r.holders.add(pod, have)
	if err := r.reclaim(have, port.Addresses, port.MAC, port.Slot); err != nil {
		// It gets a new address: its present one is of no subnet of the network, or another pod's.
		ctrl.LoggerFrom(ctx).Info("address is not restored", "pod", pod, "network", port.Network, "reason", err.Error())
	}
}

// reclaim gives an attachment the addresses and MAC that it has. Slot 0 means a new one.
func (r *Reconciler) reclaim(have held, has []netip.Addr, mac net.HardwareAddr, slot int) error {
	addresses := r.Addresses.Of(have.network)
	if len(has) == 0 {
		return addresses.AllocateMAC(alloc.EveryNode, have.owner, mac)
	}
	on := addresses.NodeOf(has)
	_, err := addresses.Reclaim(on, have.owner, alloc.Assignment{Addresses: addresses.InSubnets(on, has), Slot: slot, MAC: mac})
	return err
}
