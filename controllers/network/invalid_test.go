package network_test

import (
	"strings"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/controllers/network"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/test/kindtest"
)

// A Network that the API server would refuse, because it is older than the rule or the rule is not in the CRD, has a condition that names
// the field, and keeps what it has.
func TestBadNetworksSayWhy(t *testing.T) {
	good := networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLayer3, Namespaces: &metav1.LabelSelector{},
		Subnets: []networkv1alpha1.NetworkSubnet{{CIDR: "10.1.0.0/24", HostPrefix: 26}}}
	for name, c := range map[string]struct {
		change func(*networkv1alpha1.NetworkSpec)
		want   string // "" or the reason and a part of the message
	}{
		"good": {func(*networkv1alpha1.NetworkSpec) {}, ""},
		"an unreadable selector": {func(s *networkv1alpha1.NetworkSpec) {
			s.Namespaces = &metav1.LabelSelector{MatchLabels: map[string]string{"-bad-": "a"}}
		}, "InvalidSpec spec.namespaces: "},
		"a part as large as the subnet": {func(s *networkv1alpha1.NetworkSpec) { s.Subnets[0].HostPrefix = 24 },
			"InvalidSpec spec.subnets[0].hostPrefix: 24 is the prefix length of cidr 10.1.0.0/24, so that only one node"},
		"a part larger than the subnet": {func(s *networkv1alpha1.NetworkSpec) { s.Subnets[0].HostPrefix = 16 },
			"InvalidSpec spec.subnets[0].hostPrefix: 16 is not in 24..30"},
		"a part of another family": {func(s *networkv1alpha1.NetworkSpec) { s.Subnets[0].HostPrefix = 64 },
			"InvalidSpec spec.subnets[0].hostPrefix: 64 is not in 24..30"},
	} {
		t.Run(name, func(t *testing.T) {
			n := &networkv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Name: "blue", UID: "uid-blue"}, Spec: *good.DeepCopy()}
			b := kindtest.New(t, network.Kinds, topology.KindPodNetwork, func(env *kind.Env) {
				env.Attached = func(string) (map[string]int, bool) { return nil, false }
			}, n, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}, kindtest.ClusterNetwork("4"))
			if have := b.Reconcile("", "blue"); have.Err != "" {
				t.Fatal(have.Err)
			}
			changed := kindtest.Get(b, n)
			c.change(&changed.Spec)
			b.Update(changed)
			have := b.Reconcile("", "blue")
			if have.Err != "" {
				t.Fatal(have.Err)
			}
			ready := meta.FindStatusCondition(kindtest.Get(b, n).Status.Conditions, networkv1alpha1.ConditionReady)
			refused, why := ready.Status != metav1.ConditionTrue, ready.Reason+" "+ready.Message
			if refused != (c.want != "") || !strings.HasPrefix(why, c.want) {
				t.Errorf("condition %+v, want %q", ready, c.want)
			}
			if lines, applied := have.Units[topology.PodNetworkKey("blue")]; applied && len(lines) == 0 {
				t.Error("the Network's rows go")
			}
			kindtest.Get(b, &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "blue"}})
		})
	}
}
