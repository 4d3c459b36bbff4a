package forbidden

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/weft-network/weft/apis/network/v1alpha1"
)

// networkUID returns the UID of the ClusterNetwork; empty if it does not exist.
func networkUID(ctx context.Context, t *testing.T) string {
	t.Helper()
	cn := &metav1.PartialObjectMetadata{}
	raw, err := admin.RESTClient().Get().RequestURI(clusterNetwork + "/default").DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return ""
	} else if err != nil {
		t.Fatal(err)
	}
	decode(t, raw, cn)
	return string(cn.UID)
}

// confirmation returns the request that confirms the deletion of the ClusterNetwork.
func confirmation(uid string) request {
	return request{"PATCH", clusterNetwork + "/default", annotation(v1alpha1.ConfirmRemovalAnnotation, uid)}
}

func conditions(kind string) string {
	return fmt.Sprintf(
		`"conditions":[{"type":%q,"status":"True","reason":"R","message":"","lastTransitionTime":"2026-01-02T03:04:05Z"}]`, kind)
}

// TestTheNetworkIsDeletedOnlyWhenConfirmed checks that a confirmation applies to one ClusterNetwork, not to its
// name: no value in a manifest confirms the deletion.
func TestTheNetworkIsDeletedOnlyWhenConfirmed(t *testing.T) {
	newWorld(t)
	administrator := identityOf(t, restConfig)
	uid := networkUID(t.Context(), t)
	says := []string{"ClusterNetwork default", "cannot be undone", "network.weft.dev/confirm-removal=" + uid}
	attempts := func(why string) []attempt {
		return []attempt{
			{"the network, " + why, request{"DELETE", clusterNetwork + "/default", ""}, says},
			{"all networks, " + why, request{"DELETE", clusterNetwork, ""}, says},
			{"dry run,  " + why, request{"DELETE", clusterNetwork + "/default?dryRun=All", ""}, says},
			{"without the uninstallation's wait, " + why,
				request{"DELETE", clusterNetwork + "/default?propagationPolicy=Orphan", ""}, says},
		}
	}
	refused(t, administrator, attempts("not confirmed"))
	for _, value := range []string{"", "default", "true", "4a4f6f0e-0000-0000-0000-000000000000"} {
		must(t, administrator, request{"PATCH", clusterNetwork + "/default", annotation(v1alpha1.ConfirmRemovalAnnotation, value)})
		refused(t, administrator, attempts(fmt.Sprintf("confirmed by %q", value)))
	}
	must(t, administrator, confirmation(uid))
	allowed(t, administrator, []attempt{{"the network, confirmed", request{"DELETE", clusterNetwork + "/default", ""}, nil}})
	must(t, administrator, request{"POST", clusterNetwork, clusterNetworkBody})
	refused(t, administrator, []attempt{{"the network of the same name",
		request{"DELETE", clusterNetwork + "/default", ""}, []string{networkUID(t.Context(), t)}}})
}

// TestARemovalIsReportedAndReverted checks a ClusterNetwork that is being deleted: the operands' controller reports
// the progress, any administrator may revert the deletion, and the operator may do neither.
func TestARemovalIsReportedAndReverted(t *testing.T) {
	w := newWorld(t)
	administrator, operands := identityOf(t, restConfig), operandsAccount(t)
	must(t, administrator, request{"PATCH", clusterNetwork + "/default", `{"metadata":{"finalizers":["network.weft.dev/operands"]}}`})
	must(t, administrator, confirmation(networkUID(t.Context(), t)))
	must(t, administrator, request{"DELETE", clusterNetwork + "/default", ""})
	allowed(t, operands, []attempt{
		{"why it waits", request{"PATCH", clusterNetwork + "/default/status", status(conditions("Removing"))}, nil},
		{"the condition Ready", request{"PATCH", clusterNetwork + "/default/status", status(conditions("Ready"))}, nil},
	})
	refused(t, operands, []attempt{
		{"a field with a condition", request{"PATCH", clusterNetwork + "/default/status",
			status(conditions("Removing") + `,"mtu":600`)}, []string{"only rollout"}},
	})
	refused(t, w.operator, []attempt{
		{"the finalizer", request{"PATCH", clusterNetwork + "/default", `{"metadata":{"finalizers":null}}`}, []string{`"default"`}},
	})
	user := person(t, "network-administrator", "", rule("network.weft.dev", "clusternetworks", "*"))
	allowed(t, user, []attempt{
		{"a removed confirmation", request{"PATCH", clusterNetwork + "/default",
			`{"metadata":{"annotations":{"network.weft.dev/confirm-removal":null}}}`}, nil},
	})
	refused(t, user, []attempt{
		{"another deletion, not confirmed", request{"DELETE", clusterNetwork + "/default", ""}, []string{"ClusterNetwork default"}},
	})
	allowed(t, user, []attempt{
		{"a removed finalizer", request{"PATCH", clusterNetwork + "/default", `{"metadata":{"finalizers":null}}`}, nil},
		{"the recreated network", request{"POST", clusterNetwork, clusterNetworkBody}, nil},
	})
}

// operandsAccount is the account that creates the operands, with all rights on the product's kinds.
func operandsAccount(t *testing.T) *identity {
	t.Helper()
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
	grant(t, "operands-may-all", "", rbacv1.Subject{Kind: "ServiceAccount", Name: name, Namespace: system},
		rule("network.weft.dev", "*", "*"))
	return onNode(t, name, "n1")
}

// lasting are objects that the network needs.
var lasting = []string{"/api/v1/namespaces/weft-system",
	"/api/v1/namespaces/weft-system/serviceaccounts/weft-operator",
	"/api/v1/namespaces/weft-system/serviceaccounts/weft-agent",
	definitions + "/clusternetworks.network.weft.dev", definitions + "/nodenetworks.network.weft.dev", definitions +
		"/egressips.network.weft.dev", definitions + "/egressfirewalls.network.weft.dev",
	definitions + "/ippools.network.weft.dev", definitions + "/floatingips.network.weft.dev",
	definitions + "/externalroutes.network.weft.dev",
	definitions + "/egressqoses.network.weft.dev", definitions + "/loadbalancerpools.network.weft.dev",
	definitions + "/bgppeers.network.weft.dev", definitions + "/bgpadvertisements.network.weft.dev"}

const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// withoutNetwork deletes the ClusterNetwork, and returns when the objects that it needed may be deleted.
func withoutNetwork(t *testing.T) {
	t.Helper()
	administrator := identityOf(t, restConfig)
	must(t, administrator, confirmation(networkUID(t.Context(), t)))
	must(t, administrator, request{"DELETE", clusterNetwork + "/default", ""})
	mayGo(t, true)
}

// mayGo waits until the objects that the network needs may, or may not, be deleted.
func mayGo(t *testing.T, want bool) {
	t.Helper()
	administrator := identityOf(t, restConfig)
	for _, path := range lasting {
		err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 10*time.Second, true,
			func(ctx context.Context) (bool, error) {
				err := administrator.do(ctx, request{"DELETE", path + "?dryRun=All", ""})
				if err != nil && !apierrors.IsForbidden(err) {
					return false, err
				}
				return (err == nil) == want, nil
			})
		if err != nil {
			t.Fatalf("waiting for the permission to delete %s to be %t: %v", path, want, err)
		}
	}
}

// TestWhatTheNetworkNeedsGoesAfterIt checks that deleting the manifests before the network is refused, because it
// would delete the network's namespace and everything in its objects. The policy does not check other objects.
func TestWhatTheNetworkNeedsGoesAfterIt(t *testing.T) {
	newWorld(t)
	administrator := identityOf(t, restConfig)
	mayGo(t, false)
	attempts := make([]attempt, 0, len(lasting))
	for _, path := range lasting {
		attempts = append(attempts, attempt{path, request{"DELETE", path, ""},
			[]string{path[strings.LastIndex(path, "/")+1:], "is needed by the network", "ClusterNetwork default"}})
	}
	refused(t, administrator, attempts)
	const other = "/api/v1/namespaces/weft-system/serviceaccounts"
	allowed(t, administrator, []attempt{
		{"another account", request{"POST", other, `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"other"}}`}, nil},
		{"deletion of another account", request{"DELETE", other + "/other", ""}, nil},
		{"a label", request{"PATCH", other + "/weft-agent", `{"metadata":{"labels":{"a":"b"}}}`}, nil},
	})
	withoutNetwork(t)
}
