package controllers

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/network"
	"github.com/weft-network/weft/pkg/topology"
)

// namedPods bounds the pods that a note names.
const namedPods = 5

// notes are what a plan says in words. As an event recorder it notes the warnings that the reconcilers would give.
type notes struct{ texts []string }

func (n *notes) add(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(n.texts, text) {
		n.texts = append(n.texts, text)
	}
}

// Eventf implements events.EventRecorder.
func (n *notes) Eventf(regarding, _ runtime.Object, kind, reason, _, note string, args ...any) {
	if kind == corev1.EventTypeWarning {
		n.add("%s would get a warning: %s: %s", nameOf(regarding), reason, fmt.Sprintf(note, args...))
	}
}

// nameOf names an object with its kind: "Pod demo/web-0".
func nameOf(object runtime.Object) string {
	kind := fmt.Sprintf("%T", object)
	kind = kind[strings.LastIndexByte(kind, '.')+1:]
	if o, ok := object.(client.Object); ok {
		return kind + " " + shortName(client.ObjectKeyFromObject(o))
	}
	return kind
}

func shortName(name types.NamespacedName) string {
	return strings.TrimPrefix(name.String(), string(types.Separator))
}

// explain notes what the rows do not show: pods that get no port, and why; what waits for an agent; a network that would be
// degraded.
func (s *simulation) explain(ctx context.Context, before client.Reader) error {
	waiting := map[string][]string{} // node without a chassis -> pods that wait for it
	for _, r := range s.sorted() {
		var err error
		switch r.kind {
		case topology.KindPod:
			err = s.explainPod(ctx, r.name, waiting)
		case topology.KindNode:
			err = s.explainNode(ctx, r.name, waiting)
		case topology.KindNetwork:
			err = s.explainNetwork(ctx, before)
		}
		if err != nil {
			return err
		}
	}
	for _, node := range slices.Sorted(maps.Keys(waiting)) {
		if err := s.explainWaiting(ctx, node, waiting[node]); err != nil {
			return err
		}
	}
	return nil
}

// explainWaiting says what a node lacks for its pods.
func (s *simulation) explainWaiting(ctx context.Context, node string, pods []string) error {
	err := s.objects.Get(ctx, types.NamespacedName{Name: node}, &corev1.Node{})
	switch {
	case client.IgnoreNotFound(err) != nil:
		return err
	case err != nil:
		s.notes.add("Node %s does not exist; without a port: %s", node, some(pods))
	case len(pods) == 0:
		s.notes.add("Node %s waits for its agent, which has not reported its chassis", node)
	default:
		s.notes.add("Node %s waits for its agent, which has not reported its chassis; without a port until then: %s", node, some(pods))
	}
	return nil
}

// sorted lists what was reconciled.
func (s *simulation) sorted() []request {
	return slices.SortedFunc(maps.Keys(s.seen), func(a, b request) int {
		return cmp.Or(cmp.Compare(slices.Index(kinds[:], a.kind), slices.Index(kinds[:], b.kind)), cmp.Compare(a.name.String(), b.name.String()))
	})
}

func some(names []string) string {
	if len(names) <= namedPods {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:namedPods], ", "), len(names)-namedPods)
}

// explainPod says why a pod has no port, unless an event did.
func (s *simulation) explainPod(ctx context.Context, name types.NamespacedName, waiting map[string][]string) error {
	if u, noted := s.database.units[topology.PodKey(name.Namespace, name.Name)]; noted && !u.Empty() {
		return nil
	}
	var pod corev1.Pod
	if err := s.objects.Get(ctx, name, &pod); err != nil {
		return client.IgnoreNotFound(err)
	}
	switch {
	case pod.Spec.HostNetwork:
		if s.laid[name] {
			s.notes.add("Pod %s uses its node's network and gets no port", name)
		}
	case pod.Spec.NodeName == "":
		if s.laid[name] {
			s.notes.add("Pod %s is not scheduled: it gets a port when it has a node", name)
		}
	default:
		chassis, err := s.chassis(ctx, pod.Spec.NodeName)
		if err != nil {
			return err
		}
		if chassis == "" {
			waiting[pod.Spec.NodeName] = append(waiting[pod.Spec.NodeName], name.String())
		}
	}
	return nil
}

func (s *simulation) explainNode(ctx context.Context, name types.NamespacedName, waiting map[string][]string) error {
	if err := s.objects.Get(ctx, name, &corev1.Node{}); err != nil {
		return client.IgnoreNotFound(err)
	}
	chassis, err := s.chassis(ctx, name.Name)
	if _, known := waiting[name.Name]; err == nil && chassis == "" && !known {
		waiting[name.Name] = nil
	}
	return err
}

// chassis returns what a node's agent reported; empty while it has not.
func (s *simulation) chassis(ctx context.Context, node string) (string, error) {
	var nn networkv1alpha1.NodeNetwork
	err := s.objects.Get(ctx, types.NamespacedName{Name: node}, &nn)
	return nn.Status.Chassis, client.IgnoreNotFound(err)
}

// explainNetwork says what would be wrong with the network and is not now.
func (s *simulation) explainNetwork(ctx context.Context, before client.Reader) error {
	now, err := degraded(ctx, before)
	if err != nil {
		return err
	}
	then, err := degraded(ctx, s.objects)
	if err == nil && then != nil && then.Status == metav1.ConditionTrue && (now == nil || now.Message != then.Message) {
		s.notes.add("ClusterNetwork %s would be degraded: %s: %s", network.Name.Name, then.Reason, then.Message)
	}
	return err
}

func degraded(ctx context.Context, objects client.Reader) (*metav1.Condition, error) {
	var cn networkv1alpha1.ClusterNetwork
	if err := objects.Get(ctx, network.Name, &cn); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return meta.FindStatusCondition(cn.Status.Conditions, networkv1alpha1.ConditionDegraded), nil
}
