package node

import (
	"context"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/floating/claim"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// applied is a database that records the last unit of each key.
type applied map[unit.Key]unit.Unit

func (a applied) Apply(_ context.Context, u unit.Unit) error { a[u.Key] = u; return nil }

// tenants records the nodes that have addresses.
type tenants map[string]bool

func (t tenants) SetNode(name string, _, _ []netip.Prefix) (dropped, outdated []alloc.Owner) {
	t[name] = true
	return nil, nil
}
func (t tenants) Idle(string) []netip.Prefix { return nil }
func (t tenants) Lacking(string) []bool      { return nil }
func (t tenants) Known() bool                { return true }

func (t tenants) AwaitedAddresses() map[string][]netip.Addr { return nil }
func (t tenants) HeldAddresses() []netip.Addr               { return nil }
func (t tenants) RemoveNode(name string) []alloc.Owner {
	had := t[name]
	delete(t, name)
	if had {
		return []alloc.Owner{alloc.PodOwner("a", name, "")}
	}
	return nil
}

// small is a cluster with room for two nodes.
func small(t *testing.T, objects ...client.Object) (*Reconciler, applied, tenants, *[]alloc.Owner) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{networkv1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	cn := &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: networkv1alpha1.ClusterNetworkName},
		Spec: networkv1alpha1.ClusterNetworkSpec{
			ClusterNetwork: []networkv1alpha1.ClusterNetworkEntry{{CIDR: "10.244.0.0/28", HostPrefix: 29}},
			ServiceNetwork: []networkv1alpha1.CIDR{"10.96.0.0/16"},
			JoinSubnet:     []networkv1alpha1.CIDR{"100.64.0.0/16"}}}
	for _, cidr := range []networkv1alpha1.CIDR{"10.244.0.0/28", "10.96.0.0/16", "100.64.0.0/16"} {
		cn.Status.Networks = append(cn.Status.Networks, networkv1alpha1.NetworkStatus{CIDR: cidr, State: networkv1alpha1.NetworkInForce})
	}
	objects = append(objects, cn)
	for _, name := range []string{"n1", "n2", "n3"} {
		objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}})
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(
		&networkv1alpha1.NodeNetwork{}, &corev1.Node{}).
		WithIndex(&networkv1alpha1.NodeNetwork{}, ByClaim, IndexByClaim).Build()
	rows, addresses, removed := applied{}, tenants{}, &[]alloc.Owner{}
	lost := &kind.Topic[[]alloc.Owner]{}
	lost.Subscribe(func(owners []alloc.Owner) { *removed = append(*removed, owners...) })
	return &Reconciler{Client: c, Live: c, Database: rows, Addresses: addresses, Events: events.NewFakeRecorder(100),
		Triggers: &trigger.Set{}, Floating: claim.New(c, c, time.Now),
		SubnetsSet: &kind.Topic[string]{}, AddressesLost: lost, PodsOutdated: &kind.Topic[[]alloc.Owner]{},
		Wildcards: noWildcards}, rows, addresses, removed
}

func noWildcards(context.Context) ([]string, error) { return nil, nil }

// reconciled reconciles nodes in turn, until no NodeNetwork is deleted.
func reconciled(t *testing.T, r *Reconciler, names ...string) {
	t.Helper()
	for range 3 {
		for _, name := range names {
			if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: name}}); err != nil {
				t.Fatalf("node %s: %v", name, err)
			}
		}
	}
}

func networkOf(t *testing.T, r *Reconciler, name string) *networkv1alpha1.NodeNetwork {
	t.Helper()
	nn := &networkv1alpha1.NodeNetwork{}
	if err := r.Client.Get(t.Context(), types.NamespacedName{Name: name}, nn); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		t.Fatal(err)
	}
	return nn
}

// A late write of a former leader can give two nodes one ID. The younger NodeNetwork is replaced.
func TestOfTwoNodesWithOneIDTheYoungerGetsAnother(t *testing.T) {
	network := func(name string, age time.Duration) *networkv1alpha1.NodeNetwork {
		return &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: name,
			CreationTimestamp: metav1.NewTime(time.Unix(1_800_000_000, 0).Add(-age))},
			Spec: networkv1alpha1.NodeNetworkSpec{NodeID: 1, PodSubnets: []networkv1alpha1.CIDR{"10.244.0.0/29"}}}
	}
	for younger, ages := range map[string][2]time.Duration{"n1": {time.Minute, time.Hour}, "n2": {time.Hour, time.Minute}} {
		r, _, _, _ := small(t, network("n1", ages[0]), network("n2", ages[1]))
		reconciled(t, r, "n1", "n2")
		older := map[string]string{"n1": "n2", "n2": "n1"}[younger]
		if kept := networkOf(t, r, older); kept.Spec.NodeID != 1 || kept.Spec.PodSubnets[0] != "10.244.0.0/29" {
			t.Errorf("the older one, of %s, is %+v", older, kept.Spec)
		}
		if replaced := networkOf(t, r, younger); replaced == nil || replaced.Spec.NodeID != 2 ||
			replaced.Spec.PodSubnets[0] != "10.244.0.8/29" {
			t.Errorf("the younger one, of %s, is %+v", younger, replaced)
		}
	}
}

// A node whose network was deleted while no process ran finds no subnet, because others have it. Its rows and
// addresses must be removed, because they belong to others now.
func TestANodeThatFindsNoSubnetHasNoRows(t *testing.T) {
	r, rows, addresses, removed := small(t)
	addresses["n3"] = true // its pods' ports were read from the database
	reconciled(t, r, "n1", "n2", "n3")
	if networkOf(t, r, "n3") != nil {
		t.Fatal("there is room for three nodes")
	}
	if u, ok := rows["node/n3"]; !ok || !u.Empty() || addresses["n3"] || len(*removed) != 1 {
		t.Errorf("rows of n3: %+v (%v), addresses: %v, removed: %v", u, ok, addresses["n3"], *removed)
	}
	if enqueued := r.Triggers.Of(topology.KindGateway).Take(); len(enqueued) == 0 || enqueued[0].Name != "n3" ||
		!r.HasNone("n3") || r.HasNone("n1") {
		t.Errorf("gateways enqueued: %v; n3 has no network: %t, n1: %t", enqueued, r.HasNone("n3"), r.HasNone("n1"))
	}
	for _, name := range []string{"n1", "n2"} {
		if u := rows[unit.NewKey("node", name)]; u.Empty() || !addresses[name] {
			t.Errorf("node %s has %d rows, addresses %v", name, len(u.Rows), addresses[name])
		}
	}
}
