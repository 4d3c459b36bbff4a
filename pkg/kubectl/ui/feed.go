package ui

import (
	"context"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
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

	cniv1beta1 "github.com/weft-network/weft/apis/cni/v1beta1"
	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/networks"
)

// feed follows the objects of a kind. It implements cache.ReflectorStore.
type feed struct {
	hub *hub
	// table is the table of the page that the feed fills. It is empty for objects that the page does not list.
	table string
	kind  string
	list  client.ObjectList
	// fields restricts the list to objects with these fields.
	fields string
	// one is an object of the kind.
	one client.Object
	// row returns the row of an object.
	row func(client.Object) any
	// parts returns the rows that an object has in the table partsTable: name -> row. It is nil for most kinds.
	parts      func(client.Object) map[string]any
	partsTable string
	// explains is a feed whose rows depend on the objects of this feed.
	explains *feed
	// health means that the objects are part of the status.
	health bool
	// decides means that the answer about who may reach a pod depends on the objects.
	decides bool
	// refused are the failures of the last list and of the last watch. The hub's lock protects them and objects.
	refused map[string]*Refusal
	objects map[string]client.Object
}

// newFeeds returns the feeds of the page. Each kind of Weft's API has one, with a table.
func newFeeds(h *hub) []*feed {
	definitions := &feed{table: "networks", one: &nadv1.NetworkAttachmentDefinition{}, list: &nadv1.NetworkAttachmentDefinitionList{}}
	pods := &feed{table: "pods", one: &corev1.Pod{}, list: &corev1.PodList{}, decides: true,
		row: rowOf(func(p *corev1.Pod) podRow { return podRowOf(p, definitions.networkOf) })}
	definitions.explains = pods
	all := []*feed{
		pods,
		definitions,
		{table: "services", one: &corev1.Service{}, list: &corev1.ServiceList{}, row: rowOf(serviceRowOf)},
		{one: &corev1.Namespace{}, list: &corev1.NamespaceList{}, decides: true},
		{one: &corev1.Node{}, list: &corev1.NodeList{}, decides: true},
		{table: "nodes", one: &networkv1alpha1.NodeNetwork{}, list: &networkv1alpha1.NodeNetworkList{}, row: rowOf(nodeRowOf), health: true},
		{table: "networks", one: &networkv1alpha1.ClusterNetwork{}, list: &networkv1alpha1.ClusterNetworkList{},
			row: rowOf(clusterNetworkRowOf), parts: zoneRowsOf, partsTable: "zones", health: true},
		{table: "networks", one: &networkv1alpha1.Network{}, list: &networkv1alpha1.NetworkList{}, row: rowOf(networkRowOf)},
		{table: "pools", one: &networkv1alpha1.IPPool{}, list: &networkv1alpha1.IPPoolList{}, row: rowOf(poolRowOf)},
		{table: "addresses", one: &networkv1alpha1.FloatingIP{}, list: &networkv1alpha1.FloatingIPList{}, row: rowOf(addressRowOf)},
		{table: "balancers", one: &networkv1alpha1.LoadBalancerPool{}, list: &networkv1alpha1.LoadBalancerPoolList{},
			row: rowOf(balancerRowOf)},
		{table: "egress", one: &networkv1alpha1.EgressIP{}, list: &networkv1alpha1.EgressIPList{}, row: rowOf(egressIPRowOf)},
		{table: "egress", one: &networkv1alpha1.ExternalRoute{}, list: &networkv1alpha1.ExternalRouteList{}, row: rowOf(externalRouteRowOf)},
		{table: "egress", one: &networkv1alpha1.EgressFirewall{}, list: &networkv1alpha1.EgressFirewallList{},
			row: rowOf(egressFirewallRowOf)},
		{table: "egress", one: &networkv1alpha1.EgressQoS{}, list: &networkv1alpha1.EgressQoSList{}, row: rowOf(egressQoSRowOf)},
		{table: "bgp", one: &networkv1alpha1.BGPPeer{}, list: &networkv1alpha1.BGPPeerList{}, row: rowOf(peerRowOf)},
		{table: "bgp", one: &networkv1alpha1.BGPAdvertisement{}, list: &networkv1alpha1.BGPAdvertisementList{}, row: rowOf(advertisementRowOf)},
		{table: "policies", one: &networkingv1.NetworkPolicy{}, list: &networkingv1.NetworkPolicyList{}, row: rowOf(policyRowOf), decides: true},
		{table: "policies", one: &policyv1alpha2.ClusterNetworkPolicy{}, list: &policyv1alpha2.ClusterNetworkPolicyList{},
			row: rowOf(clusterPolicyRowOf), decides: true},
		{table: "policies", one: &policyv1alpha1.AdminNetworkPolicy{}, list: &policyv1alpha1.AdminNetworkPolicyList{},
			row: rowOf(adminPolicyRowOf), decides: true},
		{table: "policies", one: &policyv1alpha1.BaselineAdminNetworkPolicy{}, list: &policyv1alpha1.BaselineAdminNetworkPolicyList{},
			row: rowOf(baselinePolicyRowOf), decides: true},
		{table: "policies", one: &cniv1beta1.MultiNetworkPolicy{}, list: &cniv1beta1.MultiNetworkPolicyList{}, row: rowOf(multiPolicyRowOf)},
	}
	for _, reporter := range reporters {
		all = append(all, &feed{one: &corev1.Event{}, list: &corev1.EventList{}, fields: "reportingComponent=" + reporter})
	}
	for _, f := range all {
		f.hub, f.objects, f.refused = h, map[string]client.Object{}, map[string]*Refusal{}
		f.kind = kindOf(f.one)
		h.add(f)
	}
	return all
}

// reporters are the programs of Weft that write Events.
var reporters = []string{"weft", "weft-agent", "weft-operands"}

// networkOf returns the Network that a NetworkAttachmentDefinition attaches pods to, or "". The caller holds the hub's lock.
func (f *feed) networkOf(definition string) string {
	nad, ok := f.objects[definition].(*nadv1.NetworkAttachmentDefinition)
	if !ok {
		return ""
	}
	d, err := networks.ParseDefinition(nad)
	if err != nil {
		return "" // the operator reports it
	}
	return d.Network
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
			options.FieldSelector = f.fields
			err := c.API.List(ctx, list, &client.ListOptions{Raw: &options})
			f.note(ctx, "list", err, c)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = f.fields
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
	if f.parts != nil {
		f.putParts(f.parts(o))
	}
	f.hub.rememberHistory(f, o)
}

// putParts replaces the rows of parts. Its kind has one object.
func (f *feed) putParts(rows map[string]any) {
	for id := range f.hub.tables[f.partsTable].rows {
		if _, ok := rows[id]; !ok {
			f.hub.put(f.partsTable, id, nil)
		}
	}
	for id, row := range rows {
		f.hub.put(f.partsTable, id, row)
	}
}

func (f *feed) forget(key string) {
	delete(f.objects, key)
	if f.row != nil {
		f.hub.put(f.table, f.kind+"/"+key, nil)
	}
	if f.parts != nil {
		f.putParts(nil)
	}
}

// explain makes the rows that depend on this feed's objects again. The caller holds the hub's lock.
func (f *feed) explain() {
	if f.explains == nil {
		return
	}
	for key, o := range f.explains.objects {
		f.hub.set(f.explains.table, f.explains.kind+"/"+key, f.explains.row(o))
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
	f.explain()
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
	f.explain()
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
