package node

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/test/kindtest"
)

// A node keeps the physical networks that its pods use. Until a new process has read the attachments, the node keeps all. Each case is a
// process that has read only NodeNetwork.spec and the attachments.
func TestPhysicalNetworksInUse(t *testing.T) {
	type users = map[networkv1alpha1.PhysicalNetworkName][]string
	web := users{"dc": {"demo/web@net1"}}
	for name, c := range map[string]struct {
		wanted    []networkv1alpha1.PhysicalNetwork
		users     users
		unknown   bool
		confirmed bool
		want      string // "dc eth1 leaving"
		says      string // in the condition; "": no condition
	}{
		"unchanged":              {wanted: []networkv1alpha1.PhysicalNetwork{{Name: "dc", Link: "eth1"}}, users: web, want: "dc eth1"},
		"not in use":             {},
		"removed":                {users: web, want: "dc eth1 leaving", says: "dc (eth1): demo/web@net1."},
		"removed, users unknown": {unknown: true, want: "dc eth1 leaving", says: "dc (eth1): it is not known yet"},
		"another link": {wanted: []networkv1alpha1.PhysicalNetwork{{Name: "dc", Link: "eth2"}}, users: web, want: "dc eth1 leaving",
			says: "dc (eth1)"},
		"another link, not in use": {wanted: []networkv1alpha1.PhysicalNetwork{{Name: "dc", Link: "eth2"}}, want: "dc eth2"},
		"a bridge": {wanted: []networkv1alpha1.PhysicalNetwork{{Name: "dc", Bridge: "br"}}, users: web, want: "dc eth1 leaving",
			says: "dc"},
		"another one is in use": {users: users{"storage": {"demo/db@net1"}}},
		"renamed": {wanted: []networkv1alpha1.PhysicalNetwork{{Name: "lan", Link: "eth1"}}, users: web,
			want: "lan eth1, dc eth1 leaving", says: "dc (eth1)"},
		"the loss is confirmed": {users: web, confirmed: true},
	} {
		t.Run(name, func(t *testing.T) {
			cn := aNetwork("10.244.0.0/16 24")
			cn.Spec.PhysicalNetworks = c.wanted
			if c.confirmed {
				cn.Annotations = map[string]string{networkv1alpha1.ConfirmLossAnnotation: cn.Name}
			}
			nn := aNodeNetwork(func(nn *networkv1alpha1.NodeNetwork) {
				nn.Spec.PhysicalNetworks = []networkv1alpha1.NodePhysicalNetwork{{Name: "dc", Link: "eth1"}}
			})
			b := kindtest.New(t, Kinds, topology.KindNode, func(env *kind.Env) {
				env.OnSegments = func(_ context.Context, node string) (users, bool) { return c.users, !c.unknown && node == "n1" }
			}, cn, aNode(), nn)
			check := func() {
				t.Helper()
				if have := b.Reconcile("", "n1"); have.Err != "" {
					t.Fatal(have.Err)
				}
				got := kindtest.Get(b, nn)
				var all []string
				for _, p := range got.Spec.PhysicalNetworks {
					text := fmt.Sprint(p.Name, " ", p.Link, p.Bridge)
					if p.Leaving {
						text += " leaving"
					}
					all = append(all, text)
				}
				condition := meta.FindStatusCondition(got.Status.Conditions, networkv1alpha1.ConditionPhysicalNetworksCurrent)
				if have := strings.Join(all, ", "); have != c.want || (condition == nil) != (c.says == "") ||
					condition != nil && (!strings.Contains(condition.Message, c.says) || condition.Status != metav1.ConditionFalse) {
					t.Errorf("%s with condition %+v, want %s and %q", have, condition, c.want, c.says)
				}
			}
			check()
			b.ExpectSettled("", "n1")
			if c.says == "" {
				return
			}
			c.users, c.unknown, c.says = nil, false, "" // the pods are gone
			if c.want = ""; len(c.wanted) > 0 {
				c.want = fmt.Sprint(c.wanted[0].Name, " ", c.wanted[0].Link, c.wanted[0].Bridge)
			}
			b.Env.Detached.Publish(struct{}{})
			if enqueued := b.Env.Triggers.Of(topology.KindNode).Take(); len(enqueued) != 1 || enqueued[0].Name != "n1" {
				t.Errorf("%v are enqueued when attachments end", enqueued)
			}
			check()
		})
	}
}
