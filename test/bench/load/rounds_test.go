//go:build e2e

package load

import (
	"context"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-network/weft/test/bench/figures"
)

// endpointsOfRounds is the number of endpoints of a service in the rounds.
const endpointsOfRounds = 2

// rounds measures the kinds of events whose sum is the CPU of a round (figures.Round), n of each kind, one at a time:
// a service with its endpoints, a changed endpoint, the service's end, a policy of new selectors, and its end.
// Additions and deletions of pods are the other two.
func (w *world) rounds(events map[string]figures.Event, size figures.Size, n int) {
	w.Helper()
	first := (size.Services + n) * max(size.Endpoints, 1) // so that no other service has an endpoint's address
	created := func(i int) string { return backend((first+i)*endpointsOfRounds + endpointsOfRounds - 1) }
	events[figures.NewService] = w.event(n, func(ctx context.Context, i int) error {
		return w.createService(ctx, first+i, endpointsOfRounds)
	}, func(i int) (time.Time, error) { return w.seen.when("Load_Balancer", created(i)) })
	events[figures.ChangedEndpoint] = w.event(n, func(ctx context.Context, i int) error {
		slice := sliceOf(first+i, endpointsOfRounds)
		slice.Endpoints[0] = endpointOf(changed(n + i))
		_, err := w.api.DiscoveryV1().EndpointSlices(namespace).Update(ctx, slice, metav1.UpdateOptions{})
		return err
	}, func(i int) (time.Time, error) { return w.seen.when("Load_Balancer", changed(n+i)) })
	events[figures.DeletedService] = w.event(n, func(ctx context.Context, i int) error { return w.deleteService(ctx, first+i) },
		func(i int) (time.Time, error) { return w.seen.whenGone("Load_Balancer", serviceName(first+i)) })
	n = min(n, distinctPolicies())
	events[figures.NewPolicy] = w.event(n, func(ctx context.Context, i int) error { return w.createPolicy(ctx, newPolicyOf(i)) },
		func(i int) (time.Time, error) { return w.seen.when("ACL", policyName(newPolicies+i)) })
	events[figures.DeletedPolicy] = w.event(n, func(ctx context.Context, i int) error { return w.deletePolicy(ctx, newPolicyOf(i)) },
		func(i int) (time.Time, error) { return w.seen.whenGone("ACL", policyName(newPolicies+i)) })
}

func (w *world) createPolicy(ctx context.Context, policy *networkingv1.NetworkPolicy) error {
	_, err := w.api.NetworkingV1().NetworkPolicies(policy.Namespace).Create(ctx, policy, metav1.CreateOptions{})
	return err
}

func (w *world) deletePolicy(ctx context.Context, policy *networkingv1.NetworkPolicy) error {
	return w.api.NetworkingV1().NetworkPolicies(policy.Namespace).Delete(ctx, policy.Name, atOnce())
}

func (w *world) deleteService(ctx context.Context, i int) error {
	if err := w.api.DiscoveryV1().EndpointSlices(namespace).Delete(ctx, serviceName(i)+"-1", atOnce()); err != nil {
		return err
	}
	return w.api.CoreV1().Services(namespace).Delete(ctx, serviceName(i), atOnce())
}
