package gateway

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/unit"
)

// rows records the last applied unit, and the number of applied units.
type rows struct {
	last    unit.Unit
	applied int
	// refuses refuses units with rows, as the engine does while another unit has one of the rows.
	refuses bool
}

func (r *rows) Apply(_ context.Context, u unit.Unit) error {
	if r.refuses && !u.Empty() {
		return &ovndb.RejectedError{Unit: u.Key, Err: errors.New("a row already belongs to another unit")}
	}
	r.last, r.applied = u, r.applied+1
	return nil
}

// RowsOf returns the rows of the last unit, whichever process applied it.
func (r *rows) RowsOf(unit.Key) ([]unit.Row, bool) { return r.last.Rows, true }

// Unit returns the last unit.
func (r *rows) Unit(unit.Key) unit.Unit { return r.last }

// While an agent has not reported to a recreated NodeNetwork, the node's gateway stays, unless it was built for
// another ID or other subnets. Another node may have those now: it would wait for its routes for ever, or share the
// gateway's tunnel keys and addresses. A node that gets no NodeNetwork has no gateway.
func TestAGatewayStaysWithItsIDAndSubnets(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, networkv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		mode   networkv1alpha1.GatewayMode
		id     int32                    // of the recreated NodeNetwork; 0 if it does not exist
		subnet networkv1alpha1.CIDR     // its subnet
		none   bool                     // it does not exist, and the node gets none
		zone   networkv1alpha1.ZoneName // of the node at first; it enters the default zone then
		vacant bool
	}{
		"as before":                  {mode: networkv1alpha1.GatewayShared, id: 1, subnet: "10.244.0.0/24"},
		"as before, Local":           {mode: networkv1alpha1.GatewayLocal, id: 1, subnet: "10.244.0.0/24"},
		"another subnet":             {mode: networkv1alpha1.GatewayShared, id: 1, subnet: "10.244.1.0/24", vacant: true},
		"another subnet, Local":      {mode: networkv1alpha1.GatewayLocal, id: 1, subnet: "10.244.1.0/24", vacant: true},
		"another ID":                 {mode: networkv1alpha1.GatewayShared, id: 2, subnet: "10.244.0.0/24", vacant: true},
		"another ID, Local has none": {mode: networkv1alpha1.GatewayLocal, id: 2, subnet: "10.244.0.0/24"},
		"comes back":                 {mode: networkv1alpha1.GatewayShared},
		"gets none":                  {mode: networkv1alpha1.GatewayShared, none: true, vacant: true},
		"comes from another zone":    {mode: networkv1alpha1.GatewayShared, id: 1, subnet: "10.244.0.0/24", zone: "east", vacant: true},
	} {
		t.Run(name, func(t *testing.T) {
			nn := network(t, 1, "10.244.0.0/24")
			nn.Spec.Zone = c.zone
			nn.Status = networkv1alpha1.NodeNetworkStatus{Chassis: "chassis-n1",
				Gateway: &networkv1alpha1.NodeGatewayStatus{Mode: c.mode, Bridge: "br-ex",
					MACAddress: "02:00:00:00:00:01", Addresses: []networkv1alpha1.InterfaceAddress{"192.0.2.11/24"}}}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nn.Name}}
			db := &rows{}
			r := &Reconciler{Client: store(scheme, node, nn), Database: db, Events: events.NewFakeRecorder(10),
				HasNone: func(string) bool { return c.none }}
			reconciled(t, r, nn.Name)
			if db.applied != 1 || db.last.Empty() {
				t.Fatalf("after %d units the last is %+v", db.applied, db.last)
			}
			objects := []client.Object{node}
			if c.id != 0 {
				objects = append(objects, network(t, c.id, c.subnet))
			}
			r.Client = store(scheme, objects...)
			reconciled(t, r, nn.Name)
			if db.last.Empty() != c.vacant {
				t.Errorf("after %d units the last is %+v", db.applied, db.last)
			}
		})
	}
}

// A gateway whose router another program deleted is known by its port of the join switch, whose key another node may need.
func TestAGatewayWithoutItsRouterStaysWithItsID(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), networkv1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	for id, gone := range map[int32]bool{1: false, 2: true} {
		nn, db := reporting(network(t, 1, "10.244.0.0/24")), &rows{}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nn.Name}}
		r := &Reconciler{Client: store(scheme, node, nn), Database: db, Events: events.NewFakeRecorder(10)}
		reconciled(t, r, nn.Name)
		db.last.Rows = slices.DeleteFunc(db.last.Rows, func(row unit.Row) bool {
			_, router := row.Model.(*nbdb.LogicalRouter)
			return router
		})
		r.Client = store(scheme, node, network(t, id, "10.244.0.0/24")) // recreated, and without a report
		if reconciled(t, r, nn.Name); db.last.Empty() != gone {
			t.Errorf("with ID %d the last unit is %+v", id, db.last)
		}
	}
}

// Two nodes that exchanged their IDs and subnets each want rows of the other's gateway. The refused gateway goes, so that
// the other one can be made. A gateway that is refused and has the node's ID and subnets stays.
func TestExchangedGateways(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), networkv1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	for id, gone := range map[int32]bool{1: false, 2: true} {
		nn, db := reporting(network(t, 1, "10.244.0.0/24")), &rows{}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nn.Name}}
		r := &Reconciler{Client: store(scheme, node, nn), Database: db, Events: events.NewFakeRecorder(10)}
		reconciled(t, r, nn.Name)
		r.Client = store(scheme, node, reporting(network(t, id, "10.244.0.0/24")))
		db.refuses = true
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: nn.Name}})
		if err == nil || db.last.Empty() != gone {
			t.Errorf("with ID %d: error %v, and the last unit is %+v", id, err, db.last)
		}
		db.refuses = false
		if reconciled(t, r, nn.Name); db.last.Empty() {
			t.Errorf("with ID %d: the gateway did not return", id)
		}
	}
}

// reporting adds an agent's report to a NodeNetwork.
func reporting(nn *networkv1alpha1.NodeNetwork) *networkv1alpha1.NodeNetwork {
	nn.Status = networkv1alpha1.NodeNetworkStatus{Chassis: "chassis-n1", Gateway: &networkv1alpha1.NodeGatewayStatus{
		Mode: networkv1alpha1.GatewayShared, Bridge: "br-ex", MACAddress: "02:00:00:00:00:01",
		Addresses: []networkv1alpha1.InterfaceAddress{"192.0.2.11/24"}}}
	return nn
}

// network returns a NodeNetwork as the operator writes it.
func network(t *testing.T, id int32, subnet networkv1alpha1.CIDR) *networkv1alpha1.NodeNetwork {
	t.Helper()
	plan, err := facts.ParseClusterNetwork(&networkv1alpha1.ClusterNetwork{Spec: networkv1alpha1.ClusterNetworkSpec{
		ClusterNetwork: []networkv1alpha1.ClusterNetworkEntry{{CIDR: "10.244.0.0/16", HostPrefix: 24}},
		ServiceNetwork: []networkv1alpha1.CIDR{"10.96.0.0/16"}}})
	if err != nil {
		t.Fatal(err)
	}
	spec, err := facts.NodeSpec(networkv1alpha1.NodeNetworkSpec{NodeID: id, PodSubnets: []networkv1alpha1.CIDR{subnet}},
		plan, nil, facts.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	return &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: spec}
}

func store(scheme *runtime.Scheme, objects ...client.Object) client.Client {
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&corev1.Node{}, ByAddress, IndexByAddress).WithIndex(&networkv1alpha1.NodeNetwork{}, ByAddress, IndexByAddress).
		WithIndex(&corev1.Service{}, kind.ServicesLeaving, kind.IndexByEgressSource).Build()
}

func reconciled(t *testing.T, r *Reconciler, node string) {
	t.Helper()
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: node}}); err != nil {
		t.Fatal(err)
	}
}
