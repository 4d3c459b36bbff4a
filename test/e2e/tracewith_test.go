//go:build e2e

package e2e

import (
	"encoding/json"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestTraceWithAManifest traces as if a NetworkPolicy were applied: the policy drops the packet. Without it, and after
// the question, the packet passes.
func TestTraceWithAManifest(t *testing.T) {
	w := newWeft(t)
	from, to := bed.peerPod("with-client", "n1"), bed.peerPod("with-server", "n2")
	to.Labels = map[string]string{"app": to.Name}
	bed.run(t, from, to)
	deny := networkingv1.NetworkPolicy{TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "with-deny"},
		Spec: networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: to.Labels},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}}}
	text, err := json.Marshal(deny)
	must(t, err)
	question := []string{"trace", namespace + "/" + from.Name, namespace + "/" + to.Name, "--port", "8080"}
	w.expect(0, "", question, "allowed")
	w.expect(1, string(text), append(question, "--with", "-f", "-"), "dropped by NetworkPolicy "+namespace+"/with-deny",
		"as if the manifests were applied")
	w.expect(0, "", question, "allowed")
	w.expect(2, "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containerz: []}}", append(question, "--with", "-f", "-"),
		`unknown field "spec.containerz"`)
	out, err := bed.Exec(t.Context(), bed.central, "sh", "-c", "ls -a /run/ovn | grep -c -- .weft-copy || true")
	if err != nil {
		t.Logf("cannot list the run folder: %v", err)
	} else if string(out) != "0\n" {
		t.Errorf("a copy of the databases is left: %s", out)
	}
}
