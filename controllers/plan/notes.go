package plan

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
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/controllers/plan/overlay"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
)

// theNetwork is the name of the only ClusterNetwork.
var theNetwork = types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}

// namedPods bounds the pods that a note names.
const namedPods = 5

// notes are the texts of a plan. As an event recorder it collects the warnings that the reconcilers would record.
type notes struct{ texts []string }

func (n *notes) add(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(n.texts, text) {
		n.texts = append(n.texts, text)
	}
}

// Eventf implements events.EventRecorder.
func (n *notes) Eventf(regarding, _ runtime.Object, severity, reason, _, note string, args ...any) {
	if severity == corev1.EventTypeWarning {
		n.add("%s would get a warning: %s: %s", nameOf(regarding), reason, fmt.Sprintf(note, args...))
	}
}

// nameOf names an object with its kind: "Pod demo/web-0".
func nameOf(object runtime.Object) string {
	name := fmt.Sprintf("%T", object)
	name = name[strings.LastIndexByte(name, '.')+1:]
	if o, ok := object.(client.Object); ok {
		return name + " " + shortName(client.ObjectKeyFromObject(o))
	}
	return name
}

func shortName(name types.NamespacedName) string {
	return strings.TrimPrefix(name.String(), string(types.Separator))
}

// explain adds notes on what the rows do not show: pods without a port, with the reason; objects that wait for an
// agent; and a network that would be degraded.
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

// explainWaiting adds a note on what a node lacks for its pods.
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

// sorted lists the reconciled objects.
func (s *simulation) sorted() []request {
	return slices.SortedFunc(maps.Keys(s.seen), func(a, b request) int {
		return cmp.Or(cmp.Compare(s.order(a.kind), s.order(b.kind)), cmp.Compare(a.name.String(), b.name.String()))
	})
}

func (s *simulation) order(name string) int {
	return slices.IndexFunc(s.kinds, func(k *kind.Kind) bool { return k.Name == name })
}

func some(names []string) string {
	if len(names) <= namedPods {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:namedPods], ", "), len(names)-namedPods)
}

// explainPod adds a note on why a pod has no port, unless an event has the reason.
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

// chassis returns the chassis that a node's agent reported, or "".
func (s *simulation) chassis(ctx context.Context, node string) (string, error) {
	var nn networkv1alpha1.NodeNetwork
	err := s.objects.Get(ctx, types.NamespacedName{Name: node}, &nn)
	return nn.Status.Chassis, client.IgnoreNotFound(err)
}

// explainNetwork adds a note if the network would be degraded and is not now.
func (s *simulation) explainNetwork(ctx context.Context, before client.Reader) error {
	now, err := degraded(ctx, before)
	if err != nil {
		return err
	}
	then, err := degraded(ctx, s.objects)
	if err == nil && then != nil && then.Status == metav1.ConditionTrue && (now == nil || now.Message != then.Message) {
		s.notes.add("ClusterNetwork %s would be degraded: %s: %s", theNetwork.Name, then.Reason, then.Message)
	}
	return err
}

func degraded(ctx context.Context, objects client.Reader) (*metav1.Condition, error) {
	var cn networkv1alpha1.ClusterNetwork
	if err := objects.Get(ctx, theNetwork, &cn); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return meta.FindStatusCondition(cn.Status.Conditions, networkv1alpha1.ConditionDegraded), nil
}

// unpredictableRows returns the rows whose UUIDs are derived from the UIDs of pods that do not exist yet, with their
// names.
func (s *simulation) unpredictableRows(ctx context.Context) (map[string]string, error) {
	unpredictable := map[string]string{}
	for key, u := range s.database.units {
		if key.Kind() != topology.KindPod && key.Kind() != topology.KindPodPorts || u.Empty() {
			continue
		}
		pod, err := s.pod(ctx, trigger.NameOf(key))
		if err != nil {
			return nil, err
		}
		if pod.UID != overlay.UnknownUID {
			continue
		}
		for _, row := range u.Rows {
			switch row := row.Model.(type) {
			case *nbdb.LogicalSwitchPort:
				unpredictable[row.UUID] = row.Name
			case *nbdb.QoS:
				unpredictable[row.UUID] = row.Match
			}
		}
	}
	return unpredictable, nil
}
