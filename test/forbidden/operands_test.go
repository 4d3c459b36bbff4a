package forbidden

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What makes the operands says how far a rollout is, and nothing else of the network's status, whatever its rights.
func TestTheOperandsWriteTheRolloutAlone(t *testing.T) {
	newWorld(t)
	const name = "weft-operands"
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: system}}
	if _, err := admin.CoreV1().ServiceAccounts(system).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := admin.CoreV1().ServiceAccounts(system).Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	grant(t, "operands-may-all", "", rbacv1.Subject{Kind: "ServiceAccount", Name: name, Namespace: system}, rule("network.weft.dev", "*", "*"))
	operands := onNode(t, name, "n1")
	const rollout = `"rollout":{"state":"Complete","version":"v1","image":"weft:v1"}`
	allowed(t, operands, []attempt{
		{"a rollout", request{"PATCH", clusterNetwork + "/default/status", status(rollout)}, nil},
		{"another", request{"PATCH", clusterNetwork + "/default/status", status(`"rollout":{"state":"Stopped"}`)}, nil},
		{"its finalizer", request{"PATCH", clusterNetwork + "/default", `{"metadata":{"finalizers":["network.weft.dev/operands"]}}`}, nil},
		{"none any more", request{"PATCH", clusterNetwork + "/default", `{"metadata":{"finalizers":null}}`}, nil},
		{"what an agent is asked", request{"PATCH", networks + "/n1", annotation("network.weft.dev/probe", `{"id":"a"}`)}, nil},
	})
	refused(t, operands, []attempt{
		{"another field", request{"PATCH", clusterNetwork + "/default/status", status(`"mtu":600`)}, []string{"ClusterNetwork default", "only rollout"}},
		{"one with a rollout", request{"PATCH", clusterNetwork + "/default/status", status(rollout + `,"nodesReady":"9/9"`)}, []string{"only rollout"}},
		{"a field less", request{"PATCH", clusterNetwork + "/default/status", status(`"mtu":null`)}, []string{"only rollout"}},
		{"a NodeNetwork's spec", request{"PATCH", networks + "/n1", `{"spec":{"mtu":600}}`}, []string{"NodeNetwork n1"}},
		{"a NodeNetwork's status", request{"PATCH", networks + "/n2/status", status(`"pods":9`)}, []string{"NodeNetwork n2"}},
	})
}
