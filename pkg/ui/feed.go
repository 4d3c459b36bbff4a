package ui

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	policyv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// feed follows the objects of a kind. It implements cache.ReflectorStore.
type feed struct {
	hub *hub
	// table is the table of the page that the feed fills. It is empty for objects that the page does not list.
	table string
	kind  string
	list  client.ObjectList
	// one is an object of the kind.
	one client.Object
	// row returns the row of an object.
	row func(client.Object) any
	// health means that the objects are part of the status.
	health bool
	// refused are the failures of the last list and of the last watch. The hub's lock protects them and objects.
	refused map[string]*Refusal
	objects map[string]client.Object
}

// newFeeds returns the feeds of the page.
func newFeeds(h *hub) []*feed {
	all := []*feed{
		{table: "pods", one: &corev1.Pod{}, list: &corev1.PodList{}, row: rowOf(podRowOf)},
		{table: "services", one: &corev1.Service{}, list: &corev1.ServiceList{}, row: rowOf(serviceRowOf)},
		{one: &corev1.Namespace{}, list: &corev1.NamespaceList{}},
		{one: &corev1.Node{}, list: &corev1.NodeList{}},
		{table: "nodes", one: &networkv1alpha1.NodeNetwork{}, list: &networkv1alpha1.NodeNetworkList{}, row: rowOf(nodeRowOf), health: true},
		{table: "networks", one: &networkv1alpha1.ClusterNetwork{}, list: &networkv1alpha1.ClusterNetworkList{},
			row: rowOf(clusterNetworkRowOf), health: true},
		{table: "networks", one: &networkv1alpha1.Network{}, list: &networkv1alpha1.NetworkList{}, row: rowOf(networkRowOf)},
		{table: "pools", one: &networkv1alpha1.IPPool{}, list: &networkv1alpha1.IPPoolList{}, row: rowOf(poolRowOf)},
		{table: "addresses", one: &networkv1alpha1.FloatingIP{}, list: &networkv1alpha1.FloatingIPList{}, row: rowOf(addressRowOf)},
		{table: "policies", one: &networkingv1.NetworkPolicy{}, list: &networkingv1.NetworkPolicyList{}, row: rowOf(policyRowOf)},
		{table: "policies", one: &policyv1alpha2.ClusterNetworkPolicy{}, list: &policyv1alpha2.ClusterNetworkPolicyList{},
			row: rowOf(clusterPolicyRowOf)},
		{table: "policies", one: &policyv1alpha1.AdminNetworkPolicy{}, list: &policyv1alpha1.AdminNetworkPolicyList{},
			row: rowOf(adminPolicyRowOf)},
		{table: "policies", one: &policyv1alpha1.BaselineAdminNetworkPolicy{}, list: &policyv1alpha1.BaselineAdminNetworkPolicyList{},
			row: rowOf(baselinePolicyRowOf)},
	}
	for _, f := range all {
		f.hub, f.objects, f.refused = h, map[string]client.Object{}, map[string]*Refusal{}
		f.kind = kindOf(f.one)
		h.add(f)
	}
	return all
}

// rowOf makes a function of typed objects one of all objects.
func rowOf[T client.Object, R any](row func(T) R) func(client.Object) any {
	return func(o client.Object) any {
		if typed, ok := o.(T); ok {
			return row(typed)
		}
		return nil
	}
}

// follow lists and watches the objects until ctx ends. After a failure, the reflector tries again with growing pauses.
func (f *feed) follow(ctx context.Context, c Cluster) {
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, ok := f.list.DeepCopyObject().(client.ObjectList)
			if !ok {
				return nil, nil
			}
			err := c.API.List(ctx, list, &client.ListOptions{Raw: &options})
			f.note(ctx, "list", err, c)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			w, err := c.API.Watch(ctx, f.list, &client.ListOptions{Raw: &options})
			f.note(ctx, "watch", err, c)
			return w, err
		},
	}
	cache.NewReflectorWithOptions(source, f.one, f, cache.ReflectorOptions{Name: f.kind}).RunWithContext(ctx)
}

// note records whether a request failed. A kind that the API server does not have has no objects.
func (f *feed) note(ctx context.Context, verb string, err error, c Cluster) {
	if ctx.Err() != nil {
		return
	}
	f.hub.mu.Lock()
	_, had := f.refused[verb]
	delete(f.refused, verb)
	if err != nil && !meta.IsNoMatchError(err) {
		f.refused[verb] = refusalOf(err, c.Explain)
	}
	first := f.refused["list"]
	if first == nil {
		first = f.refused["watch"]
	}
	f.hub.mu.Unlock()
	if err != nil || had {
		f.hub.setState(f, first)
	}
}

// set records an object, whose key is its namespace and name. The caller holds the hub's lock.
func (f *feed) set(o client.Object) {
	o.SetManagedFields(nil)
	key := keyOf(o)
	f.objects[key] = o
	if f.row != nil {
		f.hub.put(f.table, f.kind+"/"+key, f.row(o))
	}
}

func (f *feed) forget(key string) {
	delete(f.objects, key)
	if f.row != nil {
		f.hub.put(f.table, f.kind+"/"+key, nil)
	}
}

func keyOf(o client.Object) string {
	if o.GetNamespace() == "" {
		return o.GetName()
	}
	return o.GetNamespace() + "/" + o.GetName()
}

// Add implements cache.ReflectorStore.
func (f *feed) Add(o any) error { return f.change(o, f.set) }

// Update implements cache.ReflectorStore.
func (f *feed) Update(o any) error { return f.change(o, f.set) }

// Delete implements cache.ReflectorStore.
func (f *feed) Delete(o any) error {
	return f.change(o, func(o client.Object) { f.forget(keyOf(o)) })
}

// Resync implements cache.ReflectorStore.
func (f *feed) Resync() error { return nil }

func (f *feed) change(o any, do func(client.Object)) error {
	object, ok := o.(client.Object)
	if !ok {
		return nil // the reflector passes on objects of the kind alone
	}
	f.hub.mu.Lock()
	do(object)
	f.hub.mu.Unlock()
	f.changed()
	return nil
}

// Replace implements cache.ReflectorStore. It is called after each list.
func (f *feed) Replace(list []any, _ string) error {
	f.hub.mu.Lock()
	gone := map[string]struct{}{}
	for key := range f.objects {
		gone[key] = struct{}{}
	}
	for _, o := range list {
		if object, ok := o.(client.Object); ok {
			delete(gone, keyOf(object))
			f.set(object)
		}
	}
	for key := range gone {
		f.forget(key)
	}
	refusal := f.refused["watch"]
	f.hub.mu.Unlock()
	f.hub.setState(f, refusal)
	f.changed()
	return nil
}

// changed makes the status stale if it depends on the objects.
func (f *feed) changed() {
	if f.health {
		f.hub.refresh()
	}
}
