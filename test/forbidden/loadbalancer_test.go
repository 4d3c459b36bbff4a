package forbidden

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	balancers    = "/apis/network.weft.dev/v1alpha1/loadbalancerpools"
	balancerBody = `{"apiVersion":"network.weft.dev/v1alpha1","kind":"LoadBalancerPool","metadata":{"name":"web"},
"spec":{"addresses":["192.0.2.0/28"]}}`
	ingress = `"loadBalancer":{"ingress":[{"ip":"192.0.2.9"}]}`
)

// The operator writes addresses of Services that a pool may serve, and the status of pools. People write the pools.
func TestTheOperatorGivesAddresses(t *testing.T) {
	w := newWorld(t)
	user := person(t, "network-team", "", rule("network.weft.dev", "loadbalancerpools loadbalancerpools/status", "*"))
	must(t, user, request{"POST", balancers, balancerBody})
	services := admin.CoreV1().Services("team-a")
	for name, class := range map[string]*string{"own": new("weft.dev/inner"), "unclassed": nil, "cloud": new("example.com/cloud")} {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: class, Ports: []corev1.ServicePort{{Port: 80}}}}
		if _, err := services.Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, name := range []string{"own", "unclassed", "cloud"} {
			_ = services.Delete(context.Background(), name, metav1.DeleteOptions{}) // the test may have failed before
		}
		_ = identityOf(t, restConfig).do(context.Background(), request{"DELETE", balancers + "/web", ""})
	})
	const path = "/api/v1/namespaces/team-a/services/"
	allowed(t, w.operator, []attempt{
		{"an address of its class", request{"PATCH", path + "own/status", status(ingress)}, nil},
		{"an address without a class", request{"PATCH", path + "unclassed/status", status(ingress)}, nil},
		{"the release", request{"PATCH", path + "own/status", status(`"loadBalancer":{"ingress":null}`)}, nil},
		{"a pool's counts", request{"PATCH", balancers + "/web/status", status(`"total":16,"used":1,"free":15`)}, nil},
	})
	refused(t, w.operator, []attempt{
		{"an address of another's class", request{"PATCH", path + "cloud/status", status(ingress)}, []string{"service team-a/cloud"}},
		{"a pool", request{"POST", balancers, balancerBody}, []string{"loadbalancerpools"}},
		{"a pool's addresses", request{"PATCH", balancers + "/web", `{"spec":{"addresses":["192.0.2.1"]}}`}, []string{`"web"`}},
	})
	refused(t, user, []attempt{
		{"a pool's status", request{"PATCH", balancers + "/web/status", status(`"used":0`)},
			[]string{"LoadBalancerPool web", "only the Weft operator writes status"}},
	})
	must(t, w.operator, request{"PATCH", balancers + "/web/status", status(`"used":2`)})
	refused(t, user, []attempt{
		{"deletion of a pool in use", request{"DELETE", balancers + "/web", ""}, []string{"LoadBalancerPool web has 2 addresses that Services",
			"kubectl annotate loadbalancerpool web network.weft.dev/remove=web"}},
		{"deletion of all pools", request{"DELETE", balancers, ""}, []string{"addresses that Services would lose"}},
	})
	allowed(t, user, []attempt{
		{"the confirmation", request{"PATCH", balancers + "/web", annotation("network.weft.dev/remove", "web")}, nil},
		{"deletion of a pool in use, confirmed", request{"DELETE", balancers + "/web", ""}, nil},
		{"a pool again", request{"POST", balancers, balancerBody}, nil},
		{"deletion of an unused pool", request{"DELETE", balancers + "/web", ""}, nil},
	})
	refused(t, w.agent["n1"], []attempt{
		{"an agent gives an address", request{"PATCH", path + "own/status", status(ingress)}, []string{"services"}},
	})
}
