package histories

import (
	"context"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// shape is a cluster network: large or small, with one family or both. Entries after the first of a family are
// appended later.
type shape struct {
	first, later []networkv1alpha1.ClusterNetworkEntry
}

func entry(cidr string, hostPrefix int32) networkv1alpha1.ClusterNetworkEntry {
	return networkv1alpha1.ClusterNetworkEntry{CIDR: networkv1alpha1.CIDR(cidr), HostPrefix: hostPrefix}
}

var (
	v4 = []networkv1alpha1.CIDR{"10.96.0.0/16"}
	v6 = []networkv1alpha1.CIDR{"fd00:10:96::/112"}
	// joins are the defaults, which the API server in memory does not set.
	joins = []networkv1alpha1.CIDR{"100.64.0.0/16", "fd98::/64"}
)

// shapes are: room for all, and later IPv6; four nodes of four pods, then two more nodes; both families with room for four
// nodes; IPv6 only, and later IPv4; both with IPv6 first, an order that no sorted set has.
var shapes = []shape{
	{first: []networkv1alpha1.ClusterNetworkEntry{entry("10.244.0.0/16", 26)},
		later: []networkv1alpha1.ClusterNetworkEntry{entry("10.245.0.0/24", 26), entry("fd00:10:246::/61", 64)}},
	{first: []networkv1alpha1.ClusterNetworkEntry{entry("10.244.0.0/27", 29)},
		later: []networkv1alpha1.ClusterNetworkEntry{entry("10.245.0.0/28", 29), entry("10.246.0.0/27", 28)}},
	{first: []networkv1alpha1.ClusterNetworkEntry{entry("10.244.0.0/26", 28), entry("fd00:10:244::/62", 64)},
		later: []networkv1alpha1.ClusterNetworkEntry{entry("10.245.0.0/26", 28), entry("fd00:10:245::/63", 64)}},
	{first: []networkv1alpha1.ClusterNetworkEntry{entry("fd00:10:244::/60", 64)},
		later: []networkv1alpha1.ClusterNetworkEntry{entry("10.244.0.0/24", 28), entry("fd00:10:245::/63", 64)}},
	{first: []networkv1alpha1.ClusterNetworkEntry{entry("fd00:10:244::/60", 64), entry("10.244.0.0/24", 27)},
		later: []networkv1alpha1.ClusterNetworkEntry{entry("10.245.0.0/26", 28)}},
}

// doNetwork executes an administrator's changes to the ClusterNetwork.
func (w *world) doNetwork(ctx context.Context, s Step) (handled bool, err error) {
	switch s.Do {
	case "network":
		return true, w.createNetwork(ctx)
	case "delete-network":
		cn := &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: networkv1alpha1.ClusterNetworkName}}
		return true, client.IgnoreNotFound(w.api.Delete(ctx, cn))
	case "append-network":
		return true, w.changeNetwork(ctx, func(cn *networkv1alpha1.ClusterNetwork) {
			for _, e := range shapes[w.plan.Shape].later {
				if !slices.Contains(cn.Spec.ClusterNetwork, e) {
					w.setEntries(cn, append(cn.Spec.ClusterNetwork, e))
					return
				}
			}
		})
	case "remove-network":
		return true, w.changeNetwork(ctx, func(cn *networkv1alpha1.ClusterNetwork) {
			first := len(shapes[w.plan.Shape].first)
			if later := len(cn.Spec.ClusterNetwork) - first; later > 0 {
				i := first + s.N%later
				w.setEntries(cn, slices.Delete(slices.Clone(cn.Spec.ClusterNetwork), i, i+1))
			}
		})
	case "mtu":
		return true, w.changeNetwork(ctx, func(cn *networkv1alpha1.ClusterNetwork) { cn.Spec.MTU = int32(s.N) })
	case "encrypt":
		return true, w.changeNetwork(ctx, func(cn *networkv1alpha1.ClusterNetwork) {
			cn.Spec.Encapsulation.Encryption = networkv1alpha1.Encryption(s.What)
		})
	case "records":
		return true, w.changeNetwork(ctx, func(cn *networkv1alpha1.ClusterNetwork) {
			cn.Spec.PodRecord = networkv1alpha1.PodRecordPolicy(s.What)
		})
	}
	return false, nil
}

// createNetwork creates the ClusterNetwork. A recreated ClusterNetwork has the previous entries, because nodes may
// use them.
func (w *world) createNetwork(ctx context.Context) error {
	shape := shapes[w.plan.Shape]
	cn := &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: networkv1alpha1.ClusterNetworkName}}
	if w.entries == nil {
		w.entries = shape.first
	}
	w.setEntries(cn, slices.Clone(w.entries))
	cn.Spec.JoinSubnet = joins
	cn.Spec.Encapsulation.Type, cn.Spec.Gateway.Mode = networkv1alpha1.EncapsulationGeneve, networkv1alpha1.GatewayShared
	cn.Spec.Zones = w.zones
	cn.Spec.PodRecord, cn.Spec.Drift.Mode = networkv1alpha1.PodRecordOnRequest, networkv1alpha1.DriftRepair
	return ignoreExists(w.api.Create(ctx, cn))
}

// setEntries sets the networks of pods, and a network of services for each of their families.
func (w *world) setEntries(cn *networkv1alpha1.ClusterNetwork, entries []networkv1alpha1.ClusterNetworkEntry) {
	cn.Spec.ClusterNetwork, cn.Spec.ServiceNetwork = entries, nil
	for _, e := range entries {
		services := v4
		if strings.Contains(string(e.CIDR), ":") {
			services = v6
		}
		if !slices.Contains(cn.Spec.ServiceNetwork, services[0]) {
			cn.Spec.ServiceNetwork = append(cn.Spec.ServiceNetwork, services...)
		}
	}
	w.entries = slices.Clone(entries)
}

func (w *world) changeNetwork(ctx context.Context, change func(*networkv1alpha1.ClusterNetwork)) error {
	cn := &networkv1alpha1.ClusterNetwork{}
	err := w.api.Get(ctx, types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, cn)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	patch := client.MergeFrom(cn.DeepCopy())
	change(cn)
	return w.api.Patch(ctx, cn, patch)
}
