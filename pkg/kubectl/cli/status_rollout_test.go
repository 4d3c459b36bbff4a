package cli

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/health"
)

func read(t *testing.T, o any) workload {
	t.Helper()
	w, known := workloadOf(o)
	if !known {
		t.Fatalf("%+v is not read", o)
	}
	return w
}

// A workload is listed until all of its pods run as its spec says, whoever changed it.
func TestRolloutsThatAreNotComplete(t *testing.T) {
	deployment := func(change func(*appsv1.Deployment)) workload {
		d := deploymentOf("operands", 1)
		d.Generation = 2
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}
		change(&d)
		return read(t, &d)
	}
	daemons := func(change func(*appsv1.DaemonSet)) workload {
		d := appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "weft-agent", Generation: 2}}
		d.Status = appsv1.DaemonSetStatus{ObservedGeneration: 2, DesiredNumberScheduled: 3, UpdatedNumberScheduled: 3, NumberAvailable: 3}
		change(&d)
		return read(t, &d)
	}
	members := func(change func(*appsv1.StatefulSet)) workload {
		s := appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "weft-central", Generation: 2}}
		s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
		s.Status = appsv1.StatefulSetStatus{ObservedGeneration: 2, UpdatedReplicas: 0, AvailableReplicas: 1}
		change(&s)
		return read(t, &s)
	}
	failed := deployment(func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 0 })
	failed.trouble = culprit{message: "pod x is in ImagePullBackOff", nextStep: "see the pod"}
	const incomplete, stopped = health.ReasonRolloutIncomplete, health.ReasonRolloutStopped
	for name, c := range map[string]struct {
		of     workload
		reason string
		says   string
	}{
		"complete":      {deployment(func(*appsv1.Deployment) {}), "", ""},
		"not begun":     {deployment(func(d *appsv1.Deployment) { d.Generation = 3 }), incomplete, "has not seen its present spec"},
		"no new pod":    {deployment(func(d *appsv1.Deployment) { d.Status.UpdatedReplicas = 0 }), incomplete, "0 of 1 pods have the present"},
		"a former pod":  {deployment(func(d *appsv1.Deployment) { d.Status.Replicas = 2 }), incomplete, "1 pods of a former template"},
		"not available": {deployment(func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 0 }), incomplete, "0 of 1 pods are available"},
		"a failing pod": {failed, stopped, "0 of 1 pods are available; pod x is in ImagePullBackOff"},
		"out of time": {deployment(func(d *appsv1.Deployment) {
			d.Status.UpdatedReplicas = 0
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse}}
		}), stopped, "0 of 1 pods"},
		"scaled to 0": {deployment(func(d *appsv1.Deployment) {
			d.Spec.Replicas, d.Status = new(int32), appsv1.DeploymentStatus{ObservedGeneration: 2}
		}), stopped, "it is scaled to 0"},
		"all daemons":         {daemons(func(*appsv1.DaemonSet) {}), "", ""},
		"daemons not begun":   {daemons(func(d *appsv1.DaemonSet) { d.Generation = 3 }), incomplete, "has not seen"},
		"a former daemon":     {daemons(func(d *appsv1.DaemonSet) { d.Status.UpdatedNumberScheduled = 2 }), incomplete, "2 of 3 pods have"},
		"a daemon away":       {daemons(func(d *appsv1.DaemonSet) { d.Status.NumberAvailable = 2 }), incomplete, "2 of 3 pods are available"},
		"replaced on request": {members(func(*appsv1.StatefulSet) {}), "", ""},
		"a member away":       {members(func(s *appsv1.StatefulSet) { s.Status.AvailableReplicas = 0 }), incomplete, "0 of 1 pods are avail"},
		"members not begun":   {members(func(s *appsv1.StatefulSet) { s.Generation = 3 }), incomplete, "has not seen"},
	} {
		t.Run(name, func(t *testing.T) {
			all := workloads{namespace: "weft-x", sets: []workload{c.of}}
			got := all.rollouts(nil)
			if c.reason == "" {
				if len(got) != 0 {
					t.Errorf("problems %+v", got)
				}
				return
			}
			if len(got) != 1 || got[0].Reason != c.reason || got[0].Object != c.of.Object() || !strings.Contains(got[0].Message, c.says) ||
				got[0].NextStep == "" || strings.Contains(got[0].NextStep, "weft-system") {
				t.Errorf("problems %+v", got)
			}
		})
	}
}

// Workloads that weft-operands applied have nobody to keep them when it does not exist.
func TestNobodyKeepsTheWorkloads(t *testing.T) {
	d := appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "weft-agent", Annotations: map[string]string{
		networkv1alpha1.AppliedAnnotation: "digest"}}}
	all := workloads{sets: []workload{read(t, &d)}}
	got := all.rollouts(nil)
	if len(got) != 1 || got[0].Object != health.OperandsWorkload || got[0].State != networkv1alpha1.StateDegraded || got[0].NextStep == "" {
		t.Errorf("problems %+v", got)
	}
	operands := deploymentOf("operands", 1)
	operands.Status = appsv1.DeploymentStatus{Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}
	if all.sets = append(all.sets, read(t, &operands)); len(all.rollouts(nil)) != 0 {
		t.Errorf("problems with weft-operands: %+v", all.rollouts(nil))
	}
	d.Annotations = nil
	if all.sets = []workload{read(t, &d)}; len(all.rollouts(nil)) != 0 {
		t.Errorf("problems of workloads that somebody else applied: %+v", all.rollouts(nil))
	}
}

// Between the start of weft-operands with another image and the rollout that it reports, all workloads are complete, with the
// former image.
func TestRolloutThatHasNotBegun(t *testing.T) {
	withImage := func(image string) corev1.PodSpec {
		return corev1.PodSpec{Containers: []corev1.Container{{Image: image}}}
	}
	pod := podOf("operands", corev1.PodStatus{})
	pod.Spec = withImage("weft:v2")
	d := deploymentOf("operator", 1)
	d.Status = appsv1.DeploymentStatus{Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}
	d.Spec.Template.Spec = withImage("weft:v1")
	all := workloads{pods: []corev1.Pod{pod}, sets: []workload{read(t, &d)}}
	done := &networkv1alpha1.RolloutStatus{State: networkv1alpha1.RolloutComplete, Version: "v1"}
	const says = "weft-operator: it has the image weft:v1, and weft-operands the image weft:v2"
	if got := all.rollouts(done); len(got) != 1 || got[0].Message != says {
		t.Errorf("problems %+v", got)
	}
	if got := all.rollouts(&networkv1alpha1.RolloutStatus{State: networkv1alpha1.RolloutBlocked}); len(got) != 0 {
		t.Errorf("beside the rollout's own problem: %+v", got)
	}
	all.pods[0].Spec = withImage("weft:v1")
	if got := all.rollouts(done); len(got) != 0 {
		t.Errorf("problems %+v", got)
	}
}

// Requests of namespaces are listed, and decide about the exit code, but not about the health of the network.
func TestRequestsOfNamespacesAreDrawn(t *testing.T) {
	cn, networks := healthyNetwork()
	first := []networkv1alpha1.Refusal{{Object: "Pod/demo/web-0", Message: "no address"}}
	cn.Status.Refused = &networkv1alpha1.Refusals{Total: 1, First: first}
	r := statusOf(cn, networks, "")
	text := statusText(r)
	if r.Healthy || !r.NetworkHealthy || !strings.HasPrefix(text, "The network is healthy, but requests of 1 objects in namespaces wait\n") ||
		!strings.Contains(text, "Pod/demo/web-0: no address") {
		t.Errorf("healthy %v, network %v:\n%s", r.Healthy, r.NetworkHealthy, text)
	}
}

// Many requests of one reason are counted, and hide no other reason.
func TestRequestsAreDrawnByReason(t *testing.T) {
	cn, networks := healthyNetwork()
	refused := &networkv1alpha1.Refusals{Total: 100, Reasons: []networkv1alpha1.RefusedReason{
		{Kind: "Pod", Reason: "AddressUnavailable", Total: 98}, {Kind: "Service", Reason: "NoPool", Total: 2}}}
	for i := range 48 {
		refused.First = append(refused.First, networkv1alpha1.Refusal{Object: fmt.Sprint("Pod/demo/web-", i), Reason: "AddressUnavailable",
			Message: "no address"})
	}
	refused.First = append(refused.First, networkv1alpha1.Refusal{Object: "Service/demo/a", Reason: "NoPool", Message: "no pool"})
	cn.Status.Refused = refused
	text := statusText(statusOf(cn, networks, ""))
	for _, part := range []string{"  AddressUnavailable of 98 Pods:\n    Pod/demo/web-0: no address\n", "    and 93 more\n",
		"  NoPool of 2 Services:\n    Service/demo/a: no pool\n    and 1 more\n"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in:\n%s", part, text)
		}
	}
	if strings.Contains(text, "web-5") || strings.Contains(text, "other reasons") {
		t.Error(text)
	}
}

// The command adds what the operator has not reported yet, and nothing twice.
func TestObjectsThatTheOperatorHasNotReported(t *testing.T) {
	bad := func(name string) health.Object {
		return health.Object{Kind: "IPPool", Name: name, Generation: 1, Conditions: []metav1.Condition{{Type: networkv1alpha1.ConditionReady,
			Status: metav1.ConditionFalse, Reason: networkv1alpha1.ReasonRangeOverlaps, Message: "it overlaps", ObservedGeneration: 1}}}
	}
	cn, networks := healthyNetwork()
	cn.Status.Problems, _ = bad("a").Problems()
	r := statusOf(cn, networks, "")
	r.include(nil, []health.Object{bad("a"), {Kind: "EgressIP", Name: "e", Generation: 2}})
	if len(r.Problems) != 2 || r.Problems[0].Object != "IPPool/a" || r.Problems[1].Reason != health.ReasonNotObserved || r.NetworkHealthy {
		t.Errorf("problems %+v", r.Problems)
	}
	cn.Status.Problems = nil
	r = statusOf(cn, networks, "")
	r.include(nil, []health.Object{bad("b")})
	if len(r.Problems) != 1 || r.Problems[0].Object != "IPPool/b" || !strings.Contains(statusText(r), "RangeOverlaps: IPPool/b") {
		t.Errorf("problems %+v", r.Problems)
	}
}
