package scheduler

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
	"github.com/weft-network/weft/pkg/addresses/floating/claim"
)

// A pod goes to a node that carries an address of its pool. Without one, its event says why, for each node, and it is
// scheduled when an address is released.
func TestPodGoesWhereAnAddressIsCarried(t *testing.T) {
	w := newWorld(t, "carried", rangeOf("192.0.2.10-192.0.2.11", "rack-2"))
	w.scheduler("carried", w.extender("", nil).address)
	a, b, c := w.pod("a", "carried"), w.pod("b", "carried"), w.pod("c", "carried")
	w.create(a, b)
	first := w.bound(a, "n2", "n3")
	if second := w.bound(b, "n2", "n3"); first == second {
		t.Fatalf("both pods have %s", first)
	}
	w.create(c)
	w.pending(c, "0/3 nodes are available",
		"1 IPPool carried: it has no IPv4 address that this node can carry, but for nodes with rack=rack-2",
		"2 IPPool carried: all its IPv4 addresses are in use")
	w.remove(a)
	if third := w.bound(c, "n2", "n3"); third != first {
		t.Errorf("pod c has %s, released was %s", third, first)
	}
}

// Requests that cannot be fulfilled have their reason in the event: a pool that does not exist, and a wrong annotation.
func TestReasonsOfRequests(t *testing.T) {
	w := newWorld(t, "reasons", rangeOf("192.0.2.20", ""))
	w.scheduler("reasons", w.extender("", nil).address)
	nowhere := w.pod("nowhere", "reasons", func(p *corev1.Pod) { p.Annotations[networkv1alpha1.IPPoolAnnotation] = "absent" })
	wrong := w.pod("wrong", "reasons", func(p *corev1.Pod) { p.Annotations[networkv1alpha1.IPCountAnnotation] = "many" })
	w.create(nowhere, wrong)
	w.pending(nowhere, "3 IPPool absent: there is no IPPool of this name")
	w.pending(wrong, "3 annotation network.weft.dev/ip-count", `"many" is not a number from 1 to 16`)
}

// Pods without the resource do not depend on the extender. A pod with it waits until the extender is back.
func TestOrdinaryPodsDoNotNeedTheExtender(t *testing.T) {
	w := newWorld(t, "ordinary", rangeOf("192.0.2.30", ""))
	e := w.extender("", nil)
	w.scheduler("ordinary", e.address)
	e.stop()
	plain := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "plain"},
		Spec: corev1.PodSpec{SchedulerName: "ordinary", Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	floating := w.pod("floating", "ordinary")
	w.create(floating, plain)
	w.await(func() error {
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(plain), plain); err != nil || plain.Spec.NodeName == "" {
			return errors.Join(errors.New("the ordinary pod is not bound"), err)
		}
		return nil
	})
	w.pending(floating, "connection refused")
	w.extender(e.address, nil)
	w.bound(floating, "n1", "n2", "n3")
}

// A recreated pod of a StatefulSet returns to the segment of its kept address, although other nodes have more free
// addresses.
func TestStatefulSetsPodReturnsToItsAddress(t *testing.T) {
	w := newWorld(t, "stateful", rangeOf("192.0.2.40-192.0.2.41", "rack-1"), rangeOf("192.0.2.48/28", "rack-2"))
	w.scheduler("stateful", w.extender("", nil).address)
	labels := map[string]string{"app": "db"}
	replicas := int32(2)
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "db"}, Spec: appsv1.StatefulSetSpec{Replicas: &replicas,
		Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}}}
	w.do(api.Create(t.Context(), set))
	pod := func(name, rack string) *corev1.Pod {
		return w.pod(name, "stateful", func(p *corev1.Pod) {
			p.Annotations[networkv1alpha1.ReleasePolicyAnnotation] = "immutable"
			p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
			if rack != "" {
				p.Spec.NodeSelector = map[string]string{"rack": rack}
			}
		})
	}
	was := pod("db-0", "rack-1")
	w.create(was)
	address := w.bound(was, "n1")
	for range 3 {
		w.remove(was)
		w.await(func() error {
			if held := w.held(was.UID); len(held) > 0 {
				return fmt.Errorf("the deleted pod has %v", held)
			}
			return nil
		})
		next := pod("db-0", "")
		w.create(next)
		if got := w.bound(next, "n1"); got != address {
			for _, f := range w.all() {
				t.Logf("%s: %+v", f.Name, f.Spec.Holder)
			}
			t.Fatalf("the pod got %s, it had %s", got, address)
		}
		was = next
	}
	other := pod("db-1", "rack-2")
	w.create(other)
	w.bound(other, "n2", "n3")
}

// Two kube-schedulers with an extender each share a pool: each pod has one address, of the segment of its node. When
// the pods are deleted, no address is left over.
func TestTwoSchedulers(t *testing.T) {
	w := newWorld(t, "two", rangeOf("192.0.2.64-192.0.2.79", "rack-1"), rangeOf("192.0.2.80-192.0.2.95", "rack-2"))
	for _, name := range []string{"two-a", "two-b"} {
		w.scheduler(name, w.extender("", nil).address)
	}
	pods := make([]*corev1.Pod, 32) // as many as addresses
	for i := range pods {
		pods[i] = w.pod(fmt.Sprint("p", i), []string{"two-a", "two-b"}[i%2])
	}
	w.create(pods...)
	owner := map[string]string{}
	for _, pod := range pods {
		address := w.bound(pod, "n1", "n2", "n3")
		if by := owner[address]; by != "" {
			t.Errorf("pods %s and %s have %s", by, pod.Name, address)
		}
		owner[address] = pod.Name
		if low := address < "192.0.2.80"; low != (pod.Spec.NodeName == "n1") {
			t.Errorf("pod %s on %s has %s", pod.Name, pod.Spec.NodeName, address)
		}
	}
	w.remove(pods...)
	w.await(w.nobodyHasAnything)
}

func (w *world) nobodyHasAnything() error {
	for _, f := range w.all() {
		if f.Spec.Holder != nil {
			return fmt.Errorf("%s is left over, with %+v", f.Name, f.Spec.Holder)
		}
	}
	return nil
}

// The extender ends between the claim and the Binding: the next replica binds the pod with the same address, and the
// address of a pod that is deleted meanwhile is released.
func TestExtenderEndsBetweenClaimAndBinding(t *testing.T) {
	w := newWorld(t, "crash", rangeOf("192.0.2.100-192.0.2.103", ""))
	var crashes atomic.Int32
	crash := func(r *replica, _ *corev1.Pod) error {
		crashes.Add(1)
		r.kill()
		return errors.New("killed")
	}
	e := w.extender("", crash)
	w.scheduler("crash", e.address)
	var claimed string
	awaitClaim := func(pod *corev1.Pod) {
		w.create(pod)
		w.await(func() error {
			held := w.held(pod.UID)
			if len(held) != 1 {
				return fmt.Errorf("pod %s has %v", pod.Name, held)
			}
			claimed = held[0]
			return nil
		})
		<-e.ended
	}
	kept := w.pod("kept", "crash")
	awaitClaim(kept)
	had := claimed
	e = w.extender(e.address, crash)
	<-e.ended // it claims nothing, since the pod has its address, and ends before the Binding again
	if held := w.held(kept.UID); len(held) != 1 || held[0] != had {
		t.Fatalf("pod kept has %v, it had %s", held, had)
	}
	gone := w.pod("gone", "crash", func(p *corev1.Pod) { p.Spec.Priority = nil })
	e = w.extender(e.address, func(r *replica, p *corev1.Pod) error {
		if p.Name == "gone" {
			return crash(r, p)
		}
		return nil
	})
	if got := w.bound(kept, "n1", "n2", "n3"); got != had {
		t.Errorf("pod kept has %s, it had %s", got, had)
	}
	awaitClaim(gone)
	w.remove(gone, kept)
	w.await(w.nobodyHasAnything)
	if n := crashes.Load(); n < 3 {
		t.Errorf("the extender ended %d times between claim and Binding, want 3", n)
	}
}

// A pod has an address of an attempt that did not bind it. Its node is cordoned since, and no other node carries that
// address: the pod gets another address elsewhere, and the operator releases the first one once the pod is bound.
func TestAddressOfAnAttemptOnAnotherSegment(t *testing.T) {
	w := newWorld(t, "moved", rangeOf("192.0.2.120-192.0.2.121", "rack-1"), rangeOf("192.0.2.124", "rack-2"))
	e := w.extender("", func(r *replica, _ *corev1.Pod) error {
		r.kill()
		return errors.New("killed")
	})
	w.scheduler("moved", e.address)
	pod := w.pod("a", "moved", func(p *corev1.Pod) { p.Annotations[networkv1alpha1.ReleasePolicyAnnotation] = "immutable" })
	w.create(pod) // rack-1 has more free addresses
	<-e.ended
	first := w.held(pod.UID)
	if len(first) != 1 || first[0] != "192.0.2.120" {
		t.Fatalf("the attempt claimed %v", first)
	}
	w.cordon("n1", true)
	defer w.cordon("n1", false)
	w.extender(e.address, nil)
	w.await(func() error {
		w.do(api.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
		if pod.Spec.NodeName == "" {
			return errors.New("the pod is not bound")
		}
		return nil
	})
	if held := w.held(pod.UID); !slices.Equal(held, []string{"192.0.2.120", "192.0.2.124"}) {
		t.Errorf("before the operator reads the pod, it has %v", held)
	}
	operator, err := client.New(as("weft-operator"), client.Options{Scheme: api.Scheme()})
	w.do(err)
	// The operator's reconciler of pods needs a database. This is what it does with the pod's addresses.
	node := floating.Node{Name: pod.Spec.NodeName, Labels: map[string]string{"rack": "rack-2"}}
	got, err := claim.New(operatorClient{operator, api}, api, time.Now).Claim(t.Context(), pod, node, nil)
	w.do(err)
	if len(got) != 1 || got[0].String() != "192.0.2.124" {
		t.Errorf("the operator gives the pod %v", got)
	}
	if address := w.bound(pod, "n2", "n3"); address != "192.0.2.124" {
		t.Errorf("the pod has %s", address)
	}
	w.remove(pod)
	w.await(w.nobodyHasAnything)
}

// operatorClient writes with the operator's rights. It reads as an administrator, because the operator reads from a cache.
type operatorClient struct {
	client.Client
	admin client.Client
}

// Get implements client.Reader.
func (c operatorClient) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return c.admin.Get(ctx, key, object, options...)
}

// cordon changes whether a node takes pods.
func (w *world) cordon(name string, cordoned bool) {
	w.Helper()
	node := &corev1.Node{}
	w.do(api.Get(context.Background(), client.ObjectKey{Name: name}, node))
	before := node.DeepCopy()
	node.Spec.Unschedulable = cordoned
	w.do(api.Patch(context.Background(), node, client.MergeFrom(before)))
}

// sample creates the policy and the binding of a file of config/samples, and deletes them at the end.
func (w *world) sample(file string) {
	w.Helper()
	text, err := os.ReadFile("../../config/samples/" + file)
	w.do(err)
	policy, binding := &admissionregistrationv1.MutatingAdmissionPolicy{}, &admissionregistrationv1.MutatingAdmissionPolicyBinding{}
	for i, object := range []client.Object{policy, binding} {
		w.do(yaml.UnmarshalStrict([]byte(strings.Split(string(text), "\n---\n")[i]), object))
		w.do(api.Create(w.Context(), object))
		w.Cleanup(func() { _ = api.Delete(context.Background(), object) })
	}
}

// The sample policy adds the resource to pods with the annotation alone, and to no other pod.
func TestPolicyAddsTheResource(t *testing.T) {
	w := newWorld(t, "policy", rangeOf("192.0.2.110", "rack-2"))
	w.sample("floating-resource.yaml")
	without := func(p *corev1.Pod) { p.Spec.Containers[0].Resources = corev1.ResourceRequirements{} }
	requests := func(pod *corev1.Pod) bool {
		_, has := pod.Spec.Containers[0].Resources.Requests[networkv1alpha1.FloatingResource]
		return has
	}
	w.await(func() error {
		probe := w.pod("probe", "policy", without)
		if err := api.Create(t.Context(), probe, client.DryRunAll); err != nil || !requests(probe) {
			return errors.Join(errors.New("the policy is not in force"), err)
		}
		return nil
	})
	plain := w.pod("plain", "policy", without, func(p *corev1.Pod) { p.Annotations = nil })
	for _, other := range []*corev1.Pod{plain, w.pod("gated", "policy", gated)} {
		w.do(api.Create(t.Context(), other, client.DryRunAll))
		if requests(other) {
			t.Errorf("pod %s got the resource", other.Name)
		}
	}
	w.scheduler("policy", w.extender("", nil).address)
	a := w.pod("a", "policy", without)
	w.create(a)
	w.bound(a, "n2", "n3")
}
