package operator

import (
	"context"
	"fmt"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestPodsCostTheAPIServerNothing covers failure mode O5. Creating and deleting pods costs the API server no request
// of the operator, so no request can be throttled: the operator reads pods through its watch and writes to the
// database. Counts in the status are one write for all pods within a delay.
func TestPodsCostTheAPIServerNothing(t *testing.T) {
	const pods = 50
	w := newWorld(t)
	w.countDelay = 5 * time.Second
	o := w.start()
	w.network(dualStack()...)
	w.join("n1")
	w.port(w.create("n1", "first")[0])
	o.settle()
	before := len(o.requests())
	var names []string
	for i := range pods {
		names = append(names, fmt.Sprintf("p-%02d", i))
	}
	created := w.create("n1", names...)
	for _, p := range created {
		w.port(p)
	}
	for _, p := range created {
		w.must(api.Delete(t.Context(), p, client.GracePeriodSeconds(0)))
	}
	for _, p := range created {
		w.noPort(p)
	}
	if made := o.requests()[before:]; len(made) > pods/10 {
		t.Errorf("creating and deleting %d pods cost %d requests: %q", pods, len(made), made)
	}
}

// TestADeadWebhookKeepsNoPodFromItsPort covers failure mode O1. A webhook with a dead backend that itself needs the
// network refuses all writes to the status of nodes and pods and to all of Weft's objects. An operator that starts
// then still gives pods their ports, because ports depend on no write to the API server.
func TestADeadWebhookKeepsNoPodFromItsPort(t *testing.T) {
	w := newWorld(t)
	first := w.start()
	w.network(dualStack()...)
	w.join("n1")
	w.port(w.create("n1", "before")[0])
	first.stop()
	w.deadWebhook()
	second := w.start()
	during := w.create("n1", "during")[0]
	w.port(during)
	w.must(api.Delete(t.Context(), during, client.GracePeriodSeconds(0)))
	w.noPort(during)
	w.port(w.create("n1", "again")[0])
	second.settle()
}

// deadWebhook installs the webhook for the time of the test, and returns when it refuses requests.
func (w *world) deadWebhook() {
	w.Helper()
	fail, none, everything, url := admissionv1.Fail, admissionv1.SideEffectClassNone, admissionv1.AllScopes, "https://127.0.0.1:1/"
	seconds := int32(1)
	rule := func(group string, resources ...string) admissionv1.RuleWithOperations {
		return admissionv1.RuleWithOperations{Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
			Rule: admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: resources, Scope: &everything}}
	}
	dead := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "dead.example.org"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "dead.example.org", ClientConfig: admissionv1.WebhookClientConfig{URL: &url}, FailurePolicy: &fail, SideEffects: &none,
			TimeoutSeconds: &seconds, AdmissionReviewVersions: []string{"v1"},
			Rules: []admissionv1.RuleWithOperations{rule("network.weft.dev", "*/*"), rule("", "nodes", "nodes/status", "pods/status")}}}}
	admin, err := client.New(adminConfig, client.Options{})
	w.must(err)
	w.must(admin.Create(w.Context(), dead))
	w.Cleanup(func() { w.must(admin.Delete(context.Background(), dead)) })
	refused := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "refused"}}
	w.until(func() error {
		if err := admin.Create(w.Context(), refused); apierrors.IsInternalError(err) {
			return nil
		} else if err != nil {
			return err
		}
		w.must(admin.Delete(w.Context(), refused))
		refused = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "refused"}}
		return fmt.Errorf("the webhook does not refuse yet")
	})
}
