package operand_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/install/render"
)

// nodesOfTest take part in a rollout.
var nodesOfTest = []string{"u1", "u2"}

// play acts as the absent controllers and agents: it marks templates as seen, creates missing pods as ready, and
// answers requests. It returns the pods that it created, in the order of nodes.
func play(t *testing.T) (made []string) {
	t.Helper()
	ctx := t.Context()
	for _, name := range []string{render.Switches, render.Controllers, render.Agents} {
		d := &appsv1.DaemonSet{}
		must(t, api.Get(ctx, own(name), d))
		if d.Status.ObservedGeneration != d.Generation {
			d.Status.ObservedGeneration = d.Generation
			must(t, client.IgnoreNotFound(ignoreConflict(api.Status().Update(ctx, d))))
		}
		for _, node := range nodesOfTest {
			made = append(made, pod(t, name+"-"+node, node, d.Spec.Template)...)
		}
	}
	s := &appsv1.StatefulSet{}
	must(t, api.Get(ctx, own(render.Central), s))
	if s.Status.ObservedGeneration != s.Generation {
		s.Status.ObservedGeneration = s.Generation
		must(t, ignoreConflict(api.Status().Update(ctx, s)))
	}
	made = append(made, pod(t, "weft-central-0", "u1", s.Spec.Template)...)
	o := &appsv1.Deployment{}
	must(t, api.Get(ctx, own(render.Operator), o))
	have := &corev1.Pod{}
	if err := api.Get(ctx, own("weft-operator-0"), have); err == nil &&
		have.Spec.Containers[0].Image != o.Spec.Template.Spec.Containers[0].Image {
		must(t, client.IgnoreNotFound(api.Delete(ctx, have)))
	}
	made = append(made, pod(t, "weft-operator-0", "u1", o.Spec.Template)...)
	for _, node := range nodesOfTest {
		answer(t, node)
	}
	preflight(t)
	return made
}

// preflight ends a running preflight, as kubelet would.
func preflight(t *testing.T) {
	t.Helper()
	p := &corev1.Pod{}
	if err := api.Get(t.Context(), own(render.Preflight), p); err != nil || p.Status.Phase == corev1.PodSucceeded {
		must(t, client.IgnoreNotFound(err))
		return
	}
	p.Status.Phase = corev1.PodSucceeded
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: p.Spec.Containers[0].Name, State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Message: `{"rows":912,"updates":{"ACL":3}}`}}}}
	must(t, client.IgnoreNotFound(ignoreConflict(api.Status().Update(t.Context(), p))))
}

func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil // the next call retries
	}
	return err
}

// pod creates a missing pod with the node in its affinity, because only a kubelet can remove a pod that has a node.
func pod(t *testing.T, name, node string, template corev1.PodTemplateSpec) []string {
	t.Helper()
	p := &corev1.Pod{}
	if err := api.Get(t.Context(), own(name), p); err == nil {
		restart(t, p)
		return nil
	}
	p = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: template.Labels,
		Annotations: template.Annotations}}
	for _, c := range template.Spec.Containers {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: c.Name, Image: c.Image})
	}
	byName := corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}
	onNode := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
		{MatchFields: []corev1.NodeSelectorRequirement{byName}}}}
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: onNode}}
	must(t, api.Create(t.Context(), p))
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	must(t, api.Status().Update(t.Context(), p))
	return []string{name}
}

// restart acts as kubelet for a pod with changed images.
func restart(t *testing.T, p *corev1.Pod) {
	t.Helper()
	if p.Annotations[render.AnnotationRestarted] == "" || len(p.Status.ContainerStatuses) > 0 &&
		p.Status.ContainerStatuses[0].Image == p.Spec.Containers[0].Image {
		return
	}
	before := map[string]int32{}
	for _, c := range p.Status.ContainerStatuses {
		before[c.Name] = c.RestartCount
	}
	p.Status.ContainerStatuses = nil
	for _, c := range p.Spec.Containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses,
			corev1.ContainerStatus{Name: c.Name, Image: c.Image, RestartCount: before[c.Name] + 1})
	}
	must(t, ignoreConflict(api.Status().Update(t.Context(), p)))
}

func answer(t *testing.T, node string) {
	t.Helper()
	nn := &networkv1alpha1.NodeNetwork{}
	must(t, api.Get(t.Context(), client.ObjectKey{Name: node}, nn))
	request, ok := networkv1alpha1.ReadProbeRequest(nn.Annotations)
	if !ok || nn.Status.Probe != nil && nn.Status.Probe.ID == request.ID {
		return
	}
	nn.Status.Probe = &networkv1alpha1.ProbeStatus{ID: request.ID}
	must(t, ignoreConflict(api.Status().Update(t.Context(), nn)))
}

func rolledOut(ctx context.Context, version string) error {
	cn := &networkv1alpha1.ClusterNetwork{}
	if err := api.Get(ctx, client.ObjectKey{Name: "default"}, cn); err != nil {
		return err
	}
	if s := cn.Status.Rollout; s == nil || s.State != networkv1alpha1.RolloutComplete || s.Version != version {
		return fmt.Errorf("rollout %+v", s)
	}
	return nil
}

// TestAnotherVersionIsRolledOut runs the product with its own rights. It replaces the nodes' pods one by one, then
// the databases and the operator, and then rolls back.
func TestAnotherVersionIsRolledOut(t *testing.T) {
	ctx := t.Context()
	for i, name := range nodesOfTest {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		must(t, api.Create(ctx, n))
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("192.0.2.%d", 11+i)}}
		must(t, api.Status().Update(ctx, n))
		nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: name}}
		must(t, api.Create(ctx, nn))
		meta.SetStatusCondition(&nn.Status.Conditions,
			metav1.Condition{Type: networkv1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: networkv1alpha1.ReasonAsExpected})
		must(t, api.Status().Update(ctx, nn))
	}
	var others corev1.NodeList // of other tests, without simulated agents
	must(t, api.List(ctx, &others))
	for i := range others.Items {
		if !slices.Contains(nodesOfTest, others.Items[i].Name) {
			must(t, api.Delete(ctx, &others.Items[i]))
		}
	}
	must(t, api.Create(ctx, &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: "default"},
		Spec: networkv1alpha1.ClusterNetworkSpec{
			ClusterNetwork: []networkv1alpha1.ClusterNetworkEntry{{CIDR: "10.244.0.0/16"}},
			ServiceNetwork: []networkv1alpha1.CIDR{"10.96.0.0/16"}}}))
	_, stop := startAs(t, "one")
	eventually(t, func() error { return all(ctx) })
	play(t)
	eventually(t, func() error { return rolledOut(ctx, "one") })
	for _, version := range []string{"two", "one"} {
		stop()
		_, stop = startAs(t, version)
		var made []string
		eventually(t, func() error {
			made = append(made, play(t)...)
			return rolledOut(ctx, version)
		})
		// The contents of these images are unknown, so that everything is replaced. Open vSwitch's pods stay and get
		// the other image.
		cn := &networkv1alpha1.ClusterNetwork{}
		must(t, api.Get(ctx, client.ObjectKey{Name: "default"}, cn))
		if got := cn.Status.Rollout.Difference; got != "3 ACL changed, of 912 rows" {
			t.Errorf("difference %q", got)
		}
		want := "weft-ovn-controller-u1 weft-agent-u1 weft-ovn-controller-u2 weft-agent-u2 weft-central-0 weft-operator-0"
		if got := strings.Join(made, " "); got != want {
			t.Errorf("to version %s\n%s, want\n%s", version, got, want)
		}
	}
	switches := &corev1.Pod{}
	must(t, api.Get(ctx, own("weft-ovs-u2"), switches))
	if image := switches.Spec.Containers[1].Image; image != "weft:one" || switches.Status.ContainerStatuses[1].RestartCount != 2 {
		t.Errorf("Open vSwitch has image %s and %+v", image, switches.Status.ContainerStatuses)
	}
	must(t, errors.Join(eventRecorded(ctx, "PodRestarted"), eventRecorded(ctx, "RolloutProgressing"),
		eventRecorded(ctx, "RolloutComplete"),
		eventRecorded(ctx, "PodReplaced")))
	// If the reply to a write of the status was lost, the watch's event corrects it.
	cn := &networkv1alpha1.ClusterNetwork{}
	must(t, api.Get(ctx, client.ObjectKey{Name: "default"}, cn))
	cn.Status.Rollout.State = networkv1alpha1.RolloutStopped
	must(t, api.Status().Update(ctx, cn))
	eventually(t, func() error { return rolledOut(ctx, "one") })
	stop()
	must(t, api.Get(ctx, client.ObjectKey{Name: "default"}, cn))
	cn.Finalizers = nil
	must(t, api.Update(ctx, cn))
	must(t, api.Delete(ctx, cn))
}
