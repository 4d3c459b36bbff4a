package egressfirewall

import (
	"context"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// slow is a database that runs a function before it stores a unit.
type slow struct {
	meanwhile func()
	wanted    map[unit.Key]bool
}

func (s *slow) Apply(_ context.Context, u unit.Unit) error {
	if s.meanwhile != nil {
		s.meanwhile()
		s.meanwhile = nil
	}
	s.wanted[u.Key] = true
	return nil
}

func (s *slow) Wanted(key unit.Key) bool { return s.wanted[key] }

func (*slow) Elements(context.Context, string, string, string) ([]string, error) { return nil, nil }

// silent is a resolver whose name servers have not responded yet.
type silent struct{ Frozen }

func (silent) Known(string) ([]netip.Addr, bool, error) { return nil, false, nil }

func (silent) Resolve(context.Context, string) time.Duration { return time.Minute }

// A firewall that begins to name a set while the set is being created has found it absent, and waits for it like
// earlier firewalls.
func TestFirewallThatNamesASetDuringItsCreationIsEnqueued(t *testing.T) {
	for name, to := range map[string]networkv1alpha1.EgressFirewallDestination{
		"nodes": {NodeSelector: &metav1.LabelSelector{}},
		"names": {DNSName: "www.example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			early, late := firewallTo("early", to), firewallTo("late", to)
			c := clientWith(t, early)
			set := SetsOf(early)[0]
			db, triggers := &slow{wanted: map[unit.Key]bool{}}, &trigger.Set{}
			db.meanwhile = func() {
				if err := c.Create(t.Context(), late); err != nil {
					t.Error(err)
				}
			}
			sets := map[string]reconcile.Reconciler{
				"nodes": &Nodes{Client: c, Database: db, Triggers: triggers},
				"names": &DNS{Client: c, Database: db, Resolver: silent{}, Triggers: triggers, Policies: &kind.SetUsers{},
					Load: func(context.Context) error { return nil }},
			}
			for range 2 { // once more for the late firewall, as its watch does
				if _, err := sets[name].Reconcile(t.Context(), ctrl.Request{NamespacedName: trigger.NameOf(set)}); err != nil {
					t.Fatal(err)
				}
			}
			want := map[types.NamespacedName]bool{client.ObjectKeyFromObject(early): true, client.ObjectKeyFromObject(late): true}
			for _, request := range triggers.Of(topology.KindEgressFirewall).Take() {
				delete(want, request.NamespacedName)
			}
			if len(want) > 0 {
				t.Errorf("%v are not enqueued", want)
			}
		})
	}
}

func firewallTo(namespace string, to networkv1alpha1.EgressFirewallDestination) *networkv1alpha1.EgressFirewall {
	return &networkv1alpha1.EgressFirewall{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: networkv1alpha1.EgressFirewallName},
		Spec: networkv1alpha1.EgressFirewallSpec{Egress: []networkv1alpha1.EgressFirewallRule{
			{Type: networkv1alpha1.EgressFirewallDeny, To: to},
		}},
	}
}

func clientWith(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, networkv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&networkv1alpha1.EgressFirewall{}, BySet, IndexBySet).Build()
}
