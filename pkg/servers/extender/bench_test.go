package extender

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
	"github.com/weft-network/weft/pkg/addresses/floating/claim"
)

// scheduling is an extender of nodes in ten racks with a pool of 20,000 addresses, and a scheduler that calls it.
type scheduling struct {
	testing.TB
	*Extender
	handler http.Handler
	names   []string
	next    int
}

func newScheduling(tb testing.TB, nodes, pods int) *scheduling {
	tb.Helper()
	options, err := ManagerOptions()
	if err != nil {
		tb.Fatal(err)
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web", UID: "uid-web"},
		Spec: appsv1.DeploymentSpec{Replicas: new(int32(20000))}}
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web-x", UID: "uid-set",
		OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(deployment, appsv1.SchemeGroupVersion.WithKind("Deployment"))}}}
	// without managed fields, which would be most of the work
	tracker := clienttesting.NewObjectTracker(options.Scheme, serializer.NewCodecFactory(options.Scheme).UniversalDecoder())
	c := fake.NewClientBuilder().WithScheme(options.Scheme).WithObjectTracker(tracker).WithObjects(deployment, set,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}).Build()
	s := &scheduling{TB: tb, Extender: &Extender{Floating: claim.New(c, c, time.Now), Live: c,
		Bind: func(context.Context, *corev1.Pod, *corev1.Binding) error { return nil }}}
	pool := floating.Pool{Name: "web", Namespaces: labels.Everything()}
	for rack := range 10 {
		r, err := networkv1alpha1.ParseAddressRange(fmt.Sprintf("10.191.%d.0-10.191.%d.207", rack*8, rack*8+7))
		if err != nil {
			tb.Fatal(err)
		}
		pool.Segments = append(pool.Segments, floating.Segment{AddressRange: r,
			Nodes: labels.SelectorFromSet(labels.Set{"rack": fmt.Sprint(rack)})})
	}
	s.Floating.Book.SetPool(pool, "")
	if err := s.Floating.Load(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	for i := range nodes {
		s.names = append(s.names, fmt.Sprint("n", i))
		s.nodes.set(s.names[i], labels.Set{"rack": fmt.Sprint(i % 10)})
	}
	s.handler = s.Handler()
	for range pods {
		s.hold()
	}
	return s
}

// hold records a pod of the Deployment with an address, without a request.
func (s *scheduling) hold() {
	s.Helper()
	s.next++
	requester, _, err := s.Floating.Requester(s.Context(), s.pod())
	if err != nil {
		s.Fatal(err)
	}
	node := floating.Node{Name: "n", Labels: labels.Set{"rack": fmt.Sprint(s.next % 10)}}
	choices, err := s.Floating.Book.Choose(requester, node)
	if err != nil {
		s.Fatal(err)
	}
	f := floating.Claimed(choices[0], requester, node.Name, metav1.Now())
	f.ResourceVersion = fmt.Sprint(s.next)
	s.Floating.Book.Observe(f)
}

func (s *scheduling) pod() *corev1.Pod {
	name := fmt.Sprint("web-x-", s.next)
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, UID: types.UID(name),
		Annotations: map[string]string{networkv1alpha1.IPPoolAnnotation: "web",
			networkv1alpha1.ReleasePolicyAnnotation: string(networkv1alpha1.ReleaseImmutable)},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-x", UID: "uid-set",
			Controller: new(true)}}}}
}

// schedule filters, prioritizes and binds one pod, and returns how long that took.
func (s *scheduling) schedule() time.Duration {
	s.Helper()
	s.next++
	pod := s.pod()
	if err := s.Live.(client.Client).Create(s.Context(), pod); err != nil {
		s.Fatal(err)
	}
	filter, fit := &extenderv1.ExtenderArgs{Pod: pod, NodeNames: &s.names}, extenderv1.ExtenderFilterResult{}
	began := time.Now()
	s.ask(PathFilter, filter, &fit)
	var scores extenderv1.HostPriorityList
	s.ask(PathPrioritize, filter, &scores)
	var bound extenderv1.ExtenderBindingResult
	s.ask(PathBind, &extenderv1.ExtenderBindingArgs{PodName: pod.Name, PodNamespace: pod.Namespace, PodUID: pod.UID,
		Node: s.names[s.next%len(s.names)]}, &bound)
	took := time.Since(began)
	if fit.Error != "" || len(*fit.NodeNames) != len(s.names) || len(scores) != len(s.names) || bound.Error != "" {
		s.Fatalf("%d nodes fit: %s; %d scores; bind: %s", len(*fit.NodeNames), fit.Error, len(scores), bound.Error)
	}
	return took
}

func (s *scheduling) ask(path string, args, into any) {
	s.Helper()
	text, err := json.Marshal(args)
	if err != nil {
		s.Fatal(err)
	}
	answer := httptest.NewRecorder()
	s.handler.ServeHTTP(answer, httptest.NewRequestWithContext(s.Context(), http.MethodPost, path, bytes.NewReader(text)))
	if err := json.Unmarshal(answer.Body.Bytes(), into); err != nil {
		s.Fatalf("%s: %v: %s", path, err, answer.Body)
	}
}

// BenchmarkPod measures what the extender needs for one pod: filter, prioritize and bind at 500 nodes, with a pool of
// 20,000 addresses of which 5,000 are in use. It includes JSON, and excludes the network and the API server.
func BenchmarkPod(b *testing.B) {
	s := newScheduling(b, 500, 5000)
	b.ReportAllocs()
	var took []time.Duration
	for b.Loop() {
		took = append(took, s.schedule())
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// A pod costs the extender the same whether 10 pods of its Deployment have addresses or 2,000.
func TestTheNumberOfPodsDoesNotMatter(t *testing.T) {
	costs := func(pods int) float64 {
		s := newScheduling(t, 20, pods)
		return testing.AllocsPerRun(20, func() { s.schedule() })
	}
	few, many := costs(10), costs(2000)
	t.Logf("allocations per pod: %v beside 10 pods, %v beside 2,000", few, many)
	if many > few*1.1 {
		t.Errorf("%v allocations per pod beside 10 pods, %v beside 2,000", few, many)
	}
}
