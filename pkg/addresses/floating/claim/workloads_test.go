package claim_test

import (
	"context"
	"errors"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating/claim"
)

// calls counts the reads from the API server, which fail.
type calls struct {
	client.Reader
	n int
}

func (c *calls) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	c.n++
	return errors.New("the API server is slow")
}

// A start reads no ReplicaSet of pods that have their addresses, unless the FloatingIP names a workload that cannot be
// the ReplicaSet's.
func TestAStartReadsNoReplicaSets(t *testing.T) {
	for name, c := range map[string]struct {
		holder string
		calls  int
	}{"its Deployment": {"web", 0}, "another Deployment": {"db", 1}} {
		cached := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}},
			&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web"}}).Build()
		live := &calls{}
		claimer := claim.New(cached, live, time.Now)
		f := &networkv1alpha1.FloatingIP{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "1"}}
		f.Spec.Address, f.Spec.Pool = "192.0.2.1", "web"
		f.Spec.Holder = &networkv1alpha1.FloatingIPHolder{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "demo", Name: c.holder,
			UID: "uid-web", Pod: "web-x-1", PodUID: "uid-pod"}
		claimer.Book.Observe(f)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web-x-1", UID: "uid-pod",
			Annotations: map[string]string{networkv1alpha1.IPPoolAnnotation: "web"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-x", UID: "uid-set",
				Controller: new(true)}}}}
		requester, _, err := claimer.Requester(t.Context(), pod)
		if live.n != c.calls || (err != nil) != (c.calls > 0) || err == nil &&
			(requester.Workload.Name != "web" || requester.WorkloadUID != "uid-web") {
			t.Errorf("%s: %d calls, %v: %+v", name, live.n, err, requester)
		}
	}
}

// After a start, the pods of a deleted ReplicaSet have the workload that one of them had, whichever is decided first.
func TestPodsOfADeletedReplicaSet(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), networkv1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, UID: types.UID("uid-" + name),
			Annotations: map[string]string{networkv1alpha1.IPPoolAnnotation: "web"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-x", UID: "uid-set",
				Controller: new(true)}}}}
	}
	f := &networkv1alpha1.FloatingIP{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	f.Spec.Address, f.Spec.Pool = "192.0.2.1", "web"
	f.Spec.Holder = &networkv1alpha1.FloatingIPHolder{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "demo", Name: "web",
		UID: "uid-web", Pod: "web-x-1", PodUID: "uid-web-x-1"}
	cached := fake.NewClientBuilder().WithScheme(scheme).WithObjects(f, pod("web-x-1"), pod("web-x-2")).Build()
	claimer := claim.New(cached, cached, time.Now)
	if err := claimer.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	requester, _, err := claimer.Requester(t.Context(), pod("web-x-2"))
	if err != nil || requester.Workload.String() != "Deployment demo/web" {
		t.Errorf("%v, %v", requester.Workload, err)
	}
}
