package forbidden

import (
	"context"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	system = "weft-system"
	team   = "team-a" // a namespace of users
)

// identity is a user with a token.
type identity struct {
	config *rest.Config
	client *kubernetes.Clientset
}

func identityOf(t *testing.T, config *rest.Config) *identity {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &identity{config, client}
}

// requestToken requests a token as kubelet does: bound to the pod, if there is one.
func requestToken(t *testing.T, namespace, account string, pod *corev1.Pod) *identity {
	t.Helper()
	request := &authenticationv1.TokenRequest{}
	if pod != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}
	got, err := admin.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account, request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(restConfig)
	config.BearerToken, config.QPS, config.Burst = got.Status.Token, 1000, 1000
	return identityOf(t, config)
}

// onNode creates a pod of a ServiceAccount on a node, as far as the API server is concerned, and returns its identity.
func onNode(t *testing.T, account, node string) *identity {
	t.Helper()
	pod := podOf(system, account+"-"+node, node)
	pod.Spec.ServiceAccountName = account
	pod, err := admin.CoreV1().Pods(system).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		now := int64(0)
		if err := admin.CoreV1().Pods(system).Delete(context.Background(), pod.Name,
			metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			t.Error(err)
		}
	})
	return requestToken(t, system, account, pod)
}

// person creates a ServiceAccount in a namespace of users, with a role in that namespace, or in all namespaces if
// namespace is empty.
func person(t *testing.T, name, namespace string, rules ...rbacv1.PolicyRule) *identity {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: team}}
	if _, err := admin.CoreV1().ServiceAccounts(team).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := admin.CoreV1().ServiceAccounts(team).Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	grant(t, name, namespace, rbacv1.Subject{Kind: "ServiceAccount", Name: name, Namespace: team}, rules...)
	return requestToken(t, team, name, nil)
}

// grant gives rights to a subject until the test ends, and returns when they are in effect.
func grant(t *testing.T, name, namespace string, subject rbacv1.Subject, rules ...rbacv1.PolicyRule) {
	t.Helper()
	ctx := t.Context()
	meta := metav1.ObjectMeta{Name: "test-" + name, Namespace: namespace}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: meta.Name}, Rules: rules}
	if _, err := admin.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name}
	var err error
	if namespace == "" {
		_, err = admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta,
			RoleRef: ref, Subjects: []rbacv1.Subject{subject}}, metav1.CreateOptions{})
	} else {
		_, err = admin.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta,
			RoleRef: ref, Subjects: []rbacv1.Subject{subject}}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		if namespace == "" {
			err = admin.RbacV1().ClusterRoleBindings().Delete(ctx, meta.Name, metav1.DeleteOptions{})
		} else {
			err = admin.RbacV1().RoleBindings(namespace).Delete(ctx, meta.Name, metav1.DeleteOptions{})
		}
		if err != nil {
			t.Error(err)
		}
		if err := admin.RbacV1().ClusterRoles().Delete(ctx, meta.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	last := rules[len(rules)-1]
	group, resource, sub := last.APIGroups[0], last.Resources[0], ""
	resource, sub, _ = strings.Cut(resource, "/")
	awaitRight(t, "system:serviceaccount:"+subject.Namespace+":"+subject.Name,
		authorizationv1.ResourceAttributes{Namespace: namespace, Group: group, Resource: resource, Subresource: sub, Verb: last.Verbs[0]})
}

// awaitRight returns when a user has a right according to the API server.
func awaitRight(t *testing.T, user string, right authorizationv1.ResourceAttributes) {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &right}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		got, err := admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err == nil && got.Status.Allowed, err
	})
	if err != nil {
		t.Fatalf("%s may %s %s: %v", user, right.Verb, right.Resource, err)
	}
}

func rule(group, resources, verbs string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: strings.Fields(resources), Verbs: strings.Fields(verbs)}
}

// request is one write as sent to the API server.
type request struct {
	method, path, body string
}

// do sends a request. PATCH is a merge patch, or a JSON patch if the body starts as a list. APPLY is a server-side
// apply.
func (i *identity) do(ctx context.Context, r request) error {
	method, contentType := r.method, "application/json"
	switch {
	case method == "APPLY":
		method, contentType = "PATCH", string(types.ApplyPatchType)
		r.path += "?fieldManager=test&force=true"
	case method == "PATCH" && strings.HasPrefix(r.body, "["):
		contentType = string(types.JSONPatchType)
	case method == "PATCH":
		contentType = string(types.MergePatchType)
	}
	return i.client.RESTClient().Verb(method).RequestURI(r.path).SetHeader("Content-Type",
		contentType).Body([]byte(r.body)).Do(ctx).Error()
}
