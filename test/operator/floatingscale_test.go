package operator

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// cloneSets is a kind of workload whose number of pods is spec.size, which only its scale subresource says.
const cloneSets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clonesets.apps.example.com}
spec:
  group: apps.example.com
  names: {kind: CloneSet, listKind: CloneSetList, plural: clonesets, singular: cloneset}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {
      spec: {type: object, properties: {size: {type: integer}}}, status: {type: object, properties: {size: {type: integer}}}}}}
    subresources: {status: {}, scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}}
`

// admin returns a client with an administrator's rights.
func (w *world) admin() client.Client {
	w.Helper()
	c, err := client.New(adminConfig, client.Options{Scheme: api.Scheme()})
	w.must(err)
	return c
}

// createFor creates an object as an administrator, until the test's end.
func (w *world) createFor(c client.Client, o client.Object) {
	w.Helper()
	w.must(c.Create(w.Context(), o))
	w.Cleanup(func() { w.must(client.IgnoreNotFound(c.Delete(context.Background(), o))) })
}

// A workload of any kind with a scale subresource keeps addresses. What it keeps without a pod becomes free when somebody
// scales it down or deletes it, if the operator may watch the kind.
func TestFloatingIPsOfAKindWithAScale(t *testing.T) {
	w := newWorld(t)
	admin := w.admin()
	crd := &unstructured.Unstructured{}
	w.must(yaml.Unmarshal([]byte(cloneSets), &crd.Object))
	w.createFor(admin, crd)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "weft-operator-clonesets"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"apps.example.com"}, Resources: []string{"clonesets", "clonesets/scale"}, Verbs: []string{"get", "list", "watch"}}}}
	w.createFor(admin, role)
	w.createFor(admin, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "weft-operator", Namespace: "default"}}})
	set := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(3)}}}
	set.SetAPIVersion("apps.example.com/v1")
	set.SetKind("CloneSet")
	set.SetNamespace("default")
	set.SetName("web")
	w.until(func() error { return w.admin().Create(w.Context(), set.DeepCopy()) }) // when the API server serves the kind
	admin = w.admin()
	w.must(admin.Get(w.Context(), client.ObjectKeyFromObject(set), set))
	w.scaledDown(set, func(replicas int64) {
		patch := client.MergeFrom(set.DeepCopy())
		w.must(unstructured.SetNestedField(set.Object, replicas, "spec", "size"))
		w.must(admin.Patch(w.Context(), set, patch))
	}, func() { w.must(admin.Delete(w.Context(), set)) })
}

// A ReplicaSet without a Deployment keeps addresses as well.
func TestFloatingIPsOfAReplicaSet(t *testing.T) {
	w := newWorld(t)
	labels := map[string]string{"app": "web"}
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: appsv1.ReplicaSetSpec{
		Replicas: new(int32(3)), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}}}}}
	w.must(api.Create(w.Context(), set))
	w.Cleanup(func() { _ = api.Delete(context.Background(), set) })
	w.scaledDown(set, func(replicas int64) {
		patch(w, set, func(set *appsv1.ReplicaSet) { set.Spec.Replicas = new(int32(replicas)) })
	}, func() { w.must(api.Delete(w.Context(), set)) })
}

// scaledDown checks which addresses a workload of three keeps without pods while it is scaled down and deleted.
func (w *world) scaledDown(set client.Object, scale func(replicas int64), remove func()) {
	w.Helper()
	w.start()
	w.network(dualStack()...)
	w.join("n1")
	w.pool("web", networkv1alpha1.LocationOverlay, "10.244.200.1-10.244.200.8")
	var pods []*corev1.Pod
	for _, name := range []string{"web-a", "web-b", "web-c"} {
		p := w.inPool(name, "n1", "web", networkv1alpha1.ReleaseImmutable, set)
		w.port(p)
		pods = append(pods, p)
	}
	for _, p := range pods {
		w.delete(p)
	}
	kind := set.GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		kind = "ReplicaSet"
	}
	kept := "(" + kind + " web)"
	w.holders(map[string]string{"10.244.200.1": kept, "10.244.200.2": kept, "10.244.200.3": kept})
	scale(1)
	w.holders(map[string]string{"10.244.200.1": kept})
	again := w.inPool("web-d", "n1", "web", networkv1alpha1.ReleaseImmutable, set)
	w.holders(map[string]string{"10.244.200.1": "web-d"})
	w.delete(again)
	w.holders(map[string]string{"10.244.200.1": kept})
	remove()
	w.holders(map[string]string{})
}

// A kept address becomes free when another pod of its workload gets another address, so that the workload has as many as it has pods.
func TestAKeptAddressTheWorkloadNeedsNoMore(t *testing.T) {
	w := newWorld(t)
	labels := map[string]string{"app": "web"}
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: appsv1.ReplicaSetSpec{
		Replicas: new(int32(3)), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}}}}}
	w.start()
	w.made(set)
	w.network(dualStack()...)
	w.join("n1")
	w.join("n2")
	p := &networkv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	p.Spec.Location, p.Spec.Namespaces = networkv1alpha1.LocationOverlay, &metav1.LabelSelector{}
	for node, addresses := range map[string]string{"n1": "10.244.200.1-10.244.200.8", "n2": "10.244.200.17-10.244.200.24"} {
		p.Spec.Ranges = append(p.Spec.Ranges, networkv1alpha1.IPPoolRange{Addresses: addresses,
			NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelHostname: node}}})
	}
	for _, node := range []string{"n1", "n2"} {
		patch(w, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, func(n *corev1.Node) {
			n.Labels = map[string]string{corev1.LabelHostname: node}
		})
	}
	w.must(api.Create(w.Context(), p))
	w.Cleanup(func() { w.forget(p) })
	get := func(name, node string) *corev1.Pod {
		pod := w.inPool(name, node, "web", networkv1alpha1.ReleaseImmutable, set)
		w.port(pod)
		return pod
	}
	a, b := get("web-a", "n1"), get("web-b", "n1")
	w.delete(a)
	w.delete(b)
	w.holders(map[string]string{"10.244.200.1": "(ReplicaSet web)", "10.244.200.2": "(ReplicaSet web)"})
	get("web-c", "n2")
	w.holders(map[string]string{"10.244.200.1": "(ReplicaSet web)", "10.244.200.2": "(ReplicaSet web)", "10.244.200.17": "web-c"})
	get("web-d", "n2")
	w.holders(map[string]string{"10.244.200.1": "(ReplicaSet web)", "10.244.200.17": "web-c", "10.244.200.18": "web-d"})
	get("web-e", "n2")
	w.holders(map[string]string{"10.244.200.17": "web-c", "10.244.200.18": "web-d", "10.244.200.19": "web-e"})
}
