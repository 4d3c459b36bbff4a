package kind

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/addressprobe"
	"github.com/weft-network/weft/pkg/addresses/lbpool"
	"github.com/weft-network/weft/pkg/process/trigger"
)

// AddressProbe is the kind that requests nodes to probe addresses. AllProbes is its only request.
const AddressProbe = "addressprobe"

// AllProbes is described at AddressProbe.
var AllProbes = types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}

// Probes reads what the nodes found out about addresses that foreign hosts may have.
func Probes(ctx context.Context, c client.Reader) (addressprobe.Nodes, error) {
	var nodes corev1.NodeList
	var networks networkv1alpha1.NodeNetworkList
	err := errors.Join(c.List(ctx, &nodes), c.List(ctx, &networks))
	return addressprobe.Read(nodes.Items, networks.Items), err
}

// ProbeWatches watches for changes of what Probes returns.
func ProbeWatches(requests handler.MapFunc) []Watch {
	never := func(event.CreateEvent) bool { return false }
	return []Watch{
		Map(&networkv1alpha1.NodeNetwork{}, requests, predicate.Funcs{CreateFunc: never, UpdateFunc: trigger.Update(probesChanged)}),
		Map(&corev1.Node{}, requests, predicate.Funcs{CreateFunc: never, UpdateFunc: trigger.Update(readyChanged)}),
	}
}

func probesChanged(before, after *networkv1alpha1.NodeNetwork) bool {
	return !equality.Semantic.DeepEqual(before.Status.Probed, after.Status.Probed) ||
		!slices.Equal(expired(before), expired(after)) ||
		!equality.Semantic.DeepEqual(before.Status.Gateway, after.Status.Gateway)
}

func expired(nn *networkv1alpha1.NodeNetwork) (found []networkv1alpha1.IP) {
	for _, probe := range nn.Spec.ProbeAddresses {
		if probe.Expired {
			found = append(found, probe.Address)
		}
	}
	return found
}

func readyChanged(before, after *corev1.Node) bool {
	return lbpool.IsReady(before) != lbpool.IsReady(after)
}

// NodeSpecChanged reports whether anything but the node's routes and probes changed in its spec.
func NodeSpecChanged(before, after *networkv1alpha1.NodeNetwork) bool {
	if before.Generation == after.Generation {
		return false
	}
	was, is := before.Spec, after.Spec
	was.BGP, is.BGP, was.ProbeAddresses, is.ProbeAddresses = nil, nil, nil, nil
	return !equality.Semantic.DeepEqual(was, is)
}
