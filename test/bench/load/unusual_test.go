//go:build e2e

package load

import (
	"context"
	"flag"
	"fmt"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weft-network/weft/test/bench/figures"
)

var unusual = flag.Bool("unusual", false, "also measure events that the rounds lack: policies of many namespaces, labels, large services")

// unusualEvents measures events that a cluster has less often than a round's, and that concern many objects each.
func (w *world) unusualEvents(events map[string]figures.Event, size figures.Size, n int) {
	w.Helper()
	if !*unusual {
		return
	}
	n = min(n, apps)
	events["policy over namespaces"] = w.event(n, func(ctx context.Context, i int) error { return w.createPolicy(ctx, wideOf(i)) },
		func(i int) (time.Time, error) { return w.seen.when("ACL", policyName(widePolicies+i)) })
	events["pod label, beside policies"] = w.relabelPods(n, size)
	events["namespace label, beside policies"] = w.relabelNamespaces(min(n, *namespaces-1))
	events["policy over namespaces, delete"] = w.event(n, func(ctx context.Context, i int) error { return w.deletePolicy(ctx, wideOf(i)) },
		func(i int) (time.Time, error) { return w.seen.whenGone("ACL", policyName(widePolicies+i)) })
	w.largeService(events, size, n)
}

// widePolicies is the number of the first policy of wideOf.
const widePolicies = 700_000

// wideOf allows the pods of one app in every namespace to send to the pods of another app in the namespace bench.
func wideOf(i int) *networkingv1.NetworkPolicy {
	policy := policyOf(i, 0)
	policy.Name, policy.Namespace = policyName(widePolicies+i), namespace
	policy.Spec.PodSelector = labelled("app", appName(i))
	from := labelled("app", appName(i+1))
	policy.Spec.Ingress[0].From = []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{}, PodSelector: &from}}
	return policy
}

// relabelPods moves n pods from one app to another. The database shows no sign of it that the observer knows, so that
// the latency is that of the API server.
func (w *world) relabelPods(n int, size figures.Size) figures.Event {
	w.Helper()
	return w.event(n, func(ctx context.Context, i int) error {
		pod := i % size.Pods
		patch := fmt.Sprintf(`{"metadata":{"labels":{"app":%q}}}`, appName(i+7))
		_, err := w.api.CoreV1().Pods(namespaceOf(pod)).Patch(ctx, podName(pod), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}, unseen)
}

// relabelNamespaces gives n namespaces a label that no policy distinguishes.
func (w *world) relabelNamespaces(n int) figures.Event {
	w.Helper()
	return w.event(n, func(ctx context.Context, i int) error {
		patch := fmt.Sprintf(`{"metadata":{"labels":{"team":"t-%d"}}}`, i)
		_, err := w.api.CoreV1().Namespaces().Patch(ctx, namespaceOf(i+1), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}, unseen)
}

func unseen(int) (time.Time, error) { return time.Now(), nil }

// largeService measures changes of an endpoint of a service with 250 endpoints.
func (w *world) largeService(events map[string]figures.Event, size figures.Size, n int) {
	w.Helper()
	const endpoints = 250
	i := 200_000
	w.must(w.createService(w.Context(), i, endpoints))
	events["endpoint changed, of 250"] = w.event(n, func(ctx context.Context, k int) error {
		slice := sliceOf(i, endpoints)
		slice.Endpoints[k%endpoints] = endpointOf(changed(4*n + 100 + k))
		_, err := w.api.DiscoveryV1().EndpointSlices(namespace).Update(ctx, slice, metav1.UpdateOptions{})
		return err
	}, func(k int) (time.Time, error) { return w.seen.when("Load_Balancer", changed(4*n+100+k)) })
	w.must(w.deleteService(w.Context(), i))
}
