package pod

import (
	"context"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/topology"
)

// lacking records the pods that find no address in the subnets of their node. A woken pod stays recorded until it has an
// address, so that the record does not change while waiting pods take turns.
type lacking struct {
	mu    sync.Mutex
	nodes map[types.NamespacedName]string // pod -> node
	count map[string]int                  // node -> number of its pods in nodes
}

// set records the node on which a pod finds no address; "" means that the pod lacks none. It returns the nodes that got
// their first such pod, or lost their last.
func (l *lacking) set(pod types.NamespacedName, node string) (changed []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.nodes[pod]
	if before == node {
		return nil
	}
	if l.nodes == nil {
		l.nodes, l.count = map[types.NamespacedName]string{}, map[string]int{}
	}
	delete(l.nodes, pod)
	if before != "" {
		if l.count[before]--; l.count[before] == 0 {
			delete(l.count, before)
			changed = append(changed, before)
		}
	}
	if node != "" {
		l.nodes[pod] = node
		if l.count[node]++; l.count[node] == 1 {
			changed = append(changed, node)
		}
	}
	return changed
}

// has reports whether a pod lacks an address.
func (l *lacking) has(pod types.NamespacedName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nodes[pod] != ""
}

// on reports whether a node has such a pod.
func (l *lacking) on(node string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count[node] > 0
}

func (l *lacking) copyTo(to *lacking) {
	l.mu.Lock()
	defer l.mu.Unlock()
	to.nodes, to.count = maps.Clone(l.nodes), maps.Clone(l.count)
}

// setLacking records the node on which a pod finds no address, or "". It enqueues the nodes whose condition SubnetsFull
// depends on that. Outside zones there is no such condition, because the node's reconciler reads Addresses.
func (r *Reconciler) setLacking(pod types.NamespacedName, node string) {
	for _, changed := range r.lacking.set(pod, node) {
		if !r.Zone.Follows() {
			break
		}
		r.Triggers.Enqueue(topology.KindNode, types.NamespacedName{Name: changed})
	}
}

// restoreLacking records the pods without an address on nodes with the condition SubnetsFull, so that the condition stays
// until these pods are reconciled. It returns the nodes with the condition.
func (r *Reconciler) restoreLacking(ctx context.Context, pods []corev1.Pod) (full map[string]bool, err error) {
	if !r.Zone.Follows() {
		return nil, nil
	}
	var list networkv1alpha1.NodeNetworkList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil { // they are only read
		return nil, err
	}
	full = map[string]bool{}
	for i := range list.Items {
		nn := &list.Items[i]
		if !r.Zone.Elsewhere(nn) && meta.FindStatusCondition(nn.Status.Conditions, networkv1alpha1.ConditionSubnetsFull) != nil {
			full[nn.Name] = true
		}
	}
	for i := range pods {
		pod := &pods[i]
		if _, _, has := r.Addresses.Get(ownerOf(pod)); !has && full[pod.Spec.NodeName] && facts.WantsPort(pod) {
			r.lacking.set(client.ObjectKeyFromObject(pod), pod.Spec.NodeName)
		}
	}
	return full, nil
}
