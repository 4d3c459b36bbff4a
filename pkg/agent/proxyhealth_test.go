package agent_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weft-network/weft/pkg/agent"
	"github.com/weft-network/weft/pkg/ports"
)

// awaitProxyHealth waits until the node's health has a status, as load balancers of clouds see it.
func (n *node) awaitProxyHealth(what string, want int) {
	n.Helper()
	n.until(what, func() error {
		response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/healthz", ports.ProxyHealth))
		if err != nil {
			return err
		}
		defer response.Body.Close()
		var body map[string]any
		if err := json.NewDecoder(response.Body).Decode(&body); err != nil {
			return err
		}
		isRight := response.StatusCode == want && body["nodeEligible"] == (want == http.StatusOK) && body["healthy"] == true
		return isTrue(isRight && body["status"] != nil, fmt.Sprint(response.StatusCode, body))
	})
}

// Load balancers find a node that the autoscaler deletes unhealthy, and changes of endpoints are measured.
func TestLoadBalancersProbeTheNode(t *testing.T) {
	var measured, synced atomic.Int64
	n := readyNodeWith(t, func(o *agent.Options) {
		o.ProxyHealth = ports.Any(ports.ProxyHealth)
		o.ObserveProgrammed = func(time.Duration) { measured.Add(1); changes.Notify() }
		o.ObserveSynced = func(time.Time) { synced.Add(1); changes.Notify() }
	})
	n.giveNIC()
	n.setGateway(sharedGateway)
	n.connectRouter()
	n.until("the first write", func() error { return isTrue(synced.Load() > 0, "no write has succeeded") })
	n.awaitProxyHealth("a healthy node", http.StatusOK)

	k8sNode := &corev1.Node{}
	n.must(api.Get(n.Context(), types.NamespacedName{Name: nodeName}, k8sNode))
	k8sNode.Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Effect: corev1.TaintEffectNoSchedule}}
	n.must(api.Update(n.Context(), k8sNode))
	n.awaitProxyHealth("a node that the autoscaler deletes", http.StatusServiceUnavailable)
	k8sNode.Spec.Taints = nil
	n.must(api.Update(n.Context(), k8sNode))
	n.awaitProxyHealth("a node that stays", http.StatusOK)

	_, slice := n.newService()
	if measured.Load() != 0 {
		t.Error("a change without a cause was measured")
	}
	slice.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: time.Now().UTC().Format(time.RFC3339Nano)}
	slice.Endpoints = slice.Endpoints[1:]
	n.must(api.Update(n.Context(), slice))
	n.until("the measurement", func() error { return isTrue(measured.Load() == 1, fmt.Sprint(measured.Load(), " measurements")) })
}
