// Package extender is the extender of kube-scheduler for floating IPs: it serves kube-scheduler's extender API
// v1 (k8s.io/kube-scheduler/extender/v1) for pods that request addresses of an IPPool.
//
//	filter ──▶ which nodes carry an address of the pod     prioritize ──▶ 0..10: kept addresses, then many free ones
//	preempt ─▶ where the victims' end frees an address     bind ────────▶ writes the FloatingIPs, then the Binding
//
// Filter, prioritize and preempt decide from memory. Several replicas may answer at once, because a FloatingIP is the
// lock of its address.
package extender

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
	"github.com/weft-network/weft/pkg/addresses/floating/claim"
)

// Extender answers the requests of kube-schedulers. It is safe for concurrent use.
type Extender struct {
	Floating *claim.Claimer
	// Live reads pods and unknown nodes from the API server.
	Live client.Reader
	// Bind posts a Binding.
	Bind func(context.Context, *corev1.Pod, *corev1.Binding) error
	// Wake writes to a pod, so that kube-scheduler tries it again.
	Wake func(ctx context.Context, pod types.NamespacedName, uid types.UID, pool string) error
	Log  logr.Logger

	nodes   nodes
	waiting waiting
}

// node returns a node with its labels.
func (e *Extender) node(ctx context.Context, name string) (floating.Node, error) {
	if labels, ok := e.nodes.get(name); ok {
		return floating.Node{Name: name, Labels: labels}, nil
	}
	object := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}}
	if err := e.Live.Get(ctx, types.NamespacedName{Name: name}, object); err != nil {
		return floating.Node{}, fmt.Errorf("read node %s: %w", name, err)
	}
	return floating.Node{Name: name, Labels: object.Labels}, nil
}

// Filter returns the nodes on which a pod can have its addresses, and the reason for each of the others.
func (e *Extender) Filter(ctx context.Context, args *extenderv1.ExtenderArgs) *extenderv1.ExtenderFilterResult {
	names := namesOf(args)
	r, wanted, err := e.request(ctx, args.Pod)
	switch {
	case err != nil:
		return &extenderv1.ExtenderFilterResult{Error: err.Error()}
	case !wanted:
		return fitting(args, names)
	}
	result := &extenderv1.ExtenderFilterResult{FailedNodes: extenderv1.FailedNodesMap{},
		FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{}}
	nodes := make([]floating.Node, 0, len(names))
	for _, name := range names {
		node, err := e.node(ctx, name)
		if client.IgnoreNotFound(err) != nil {
			return &extenderv1.ExtenderFilterResult{Error: err.Error()}
		}
		if err != nil {
			result.FailedAndUnresolvableNodes[name] = err.Error()
			continue
		}
		nodes = append(nodes, node)
	}
	var fit []string
	s := r.survey(nodes)
	for i, node := range nodes {
		switch a := &s.answers[i]; {
		case a.Err == nil:
			fit = append(fit, node.Name)
		case a.Never != nil:
			result.FailedAndUnresolvableNodes[node.Name] = a.Never.Error()
		default:
			result.FailedNodes[node.Name] = a.Err.Error()
		}
	}
	if len(fit) == 0 {
		e.waiting.add(s.requester)
	}
	found := fitting(args, fit)
	result.NodeNames, result.Nodes = found.NodeNames, found.Nodes
	return result
}

// namesOf returns the names of the candidates. A scheduler that is not configured with nodeCacheCapable sends nodes.
func namesOf(args *extenderv1.ExtenderArgs) (names []string) {
	if args.NodeNames != nil {
		return *args.NodeNames
	}
	if args.Nodes != nil {
		for i := range args.Nodes.Items {
			names = append(names, args.Nodes.Items[i].Name)
		}
	}
	return names
}

// fitting returns the nodes that fit in the form of the request.
func fitting(args *extenderv1.ExtenderArgs, names []string) *extenderv1.ExtenderFilterResult {
	if args.Nodes == nil {
		if names == nil {
			names = []string{}
		}
		return &extenderv1.ExtenderFilterResult{NodeNames: &names}
	}
	fits := map[string]bool{}
	for _, name := range names {
		fits[name] = true
	}
	nodes := &corev1.NodeList{}
	for i := range args.Nodes.Items {
		if fits[args.Nodes.Items[i].Name] {
			nodes.Items = append(nodes.Items, args.Nodes.Items[i])
		}
	}
	return &extenderv1.ExtenderFilterResult{Nodes: nodes}
}

// Prioritize returns a score for each node, 0 to extenderv1.MaxExtenderPriority.
func (e *Extender) Prioritize(ctx context.Context, args *extenderv1.ExtenderArgs) (extenderv1.HostPriorityList, error) {
	names := namesOf(args)
	scores := make(extenderv1.HostPriorityList, len(names))
	r, wanted, err := e.request(ctx, args.Pod)
	if err != nil {
		return nil, err
	}
	nodes := make([]floating.Node, len(names))
	for i, name := range names {
		scores[i].Host = name
		if !wanted {
			continue
		}
		if nodes[i], err = e.node(ctx, name); err != nil {
			nodes[i] = floating.Node{Name: name} // it scores as a node without labels
		}
	}
	if !wanted {
		return scores, nil
	}
	s := r.survey(nodes)
	most := s.most()
	for i := range scores {
		scores[i].Score = s.score(i, most)
	}
	return scores, nil
}

// Preempt returns the nodes on which a pod can have its addresses once the victims have ended, with their victims.
func (e *Extender) Preempt(ctx context.Context, args *extenderv1.ExtenderPreemptionArgs) (*extenderv1.ExtenderPreemptionResult, error) {
	r, wanted, err := e.request(ctx, args.Pod)
	if err != nil {
		return nil, err
	}
	result := &extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{}}
	for name, victims := range victimsOf(args) {
		if wanted {
			node, err := e.node(ctx, name)
			if err != nil {
				continue // without its labels, nothing says that the node carries an address
			}
			if r.after(node, victims) != nil {
				continue
			}
		}
		result.NodeNameToMetaVictims[name] = victims
	}
	return result, nil
}

// victimsOf returns the victims by node, in either form of the request.
func victimsOf(args *extenderv1.ExtenderPreemptionArgs) map[string]*extenderv1.MetaVictims {
	if args.NodeNameToVictims == nil {
		return args.NodeNameToMetaVictims
	}
	all := map[string]*extenderv1.MetaVictims{}
	for name, victims := range args.NodeNameToVictims {
		meta := &extenderv1.MetaVictims{NumPDBViolations: victims.NumPDBViolations}
		for _, pod := range victims.Pods {
			meta.Pods = append(meta.Pods, &extenderv1.MetaPod{UID: string(pod.UID)})
		}
		all[name] = meta
	}
	return all
}

// BindPod gives a pod its addresses, and then binds it to a node. It releases nothing, because another scheduler may have
// bound the pod with the addresses of an earlier attempt. The operator releases what a bound pod does not use, and all
// addresses of a pod that ends.
func (e *Extender) BindPod(ctx context.Context, args *extenderv1.ExtenderBindingArgs) error {
	var pod corev1.Pod
	name := types.NamespacedName{Namespace: args.PodNamespace, Name: args.PodName}
	if err := e.Live.Get(ctx, name, &pod); err != nil {
		return fmt.Errorf("read pod %s: %w", name, err)
	}
	switch {
	case pod.UID != args.PodUID:
		return fmt.Errorf("pod %s was replaced by another of its name", name)
	case pod.DeletionTimestamp != nil:
		return fmt.Errorf("pod %s is being deleted", name)
	case pod.Spec.NodeName == args.Node:
		return nil // the reply to an earlier request was lost
	case pod.Spec.NodeName != "":
		return fmt.Errorf("pod %s is bound to node %s", name, pod.Spec.NodeName)
	}
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target: corev1.ObjectReference{Kind: "Node", Name: args.Node}}
	addresses, err := e.claim(ctx, &pod, args.Node)
	if err != nil {
		return err
	}
	if len(addresses) > 0 {
		metav1.SetMetaDataAnnotation(&binding.ObjectMeta, networkv1alpha1.FloatingIPsAnnotation, claim.Annotation(addresses))
	}
	if err := e.Bind(ctx, &pod, binding); err != nil {
		return fmt.Errorf("bind pod %s to node %s: %w", name, args.Node, err)
	}
	e.waiting.remove(pod.UID)
	return nil
}

// claim gives a pod its addresses on a node.
func (e *Extender) claim(ctx context.Context, pod *corev1.Pod, on string) ([]netip.Addr, error) {
	r, wanted, err := e.request(ctx, pod)
	if err != nil || !wanted {
		return nil, err
	}
	node, err := e.node(ctx, on)
	if err != nil {
		return nil, err
	}
	if a := r.survey([]floating.Node{node}).answers[0]; a.Err != nil {
		return nil, cmp.Or(a.Never, a.Err)
	}
	return e.Floating.Claim(ctx, pod, node, nil)
}
