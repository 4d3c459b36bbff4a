package network_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/controllers/network"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/test/kindtest"
)

// node returns a node whose agent reports its links' MTUs.
func node(name string, link, segment int32) client.Object {
	nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: name}}
	nn.Status.LinkMTU, nn.Status.EncapIP = link, "192.0.2.1"
	nn.Status.PhysicalNetworks = []networkv1alpha1.NodePhysicalNetworkStatus{{Name: "dc", Ready: true, LinkMTU: segment}}
	return nn
}

// An MTU that a node's link does not carry is not in effect, and the condition names the field, the largest that fits, and the nodes.
func TestAnMTUThatDoesNotFit(t *testing.T) {
	const layer2, layer3, localnet = networkv1alpha1.TopologyLayer2, networkv1alpha1.TopologyLayer3, networkv1alpha1.TopologyLocalnet
	usual, jumbo := node("usual", 1500, 9000), node("jumbo", 9000, 1600)
	for name, c := range map[string]struct {
		topology       networkv1alpha1.NetworkTopology
		mtu, former    int32
		nodes          []client.Object
		encrypted      bool
		want           int32
		says, saysNext string // "": Ready
	}{
		"omitted":           {topology: layer2, nodes: []client.Object{usual}},
		"fits":              {topology: layer2, mtu: 1442, former: 1400, nodes: []client.Object{usual, jumbo}, want: 1442},
		"before any report": {topology: layer2, mtu: 9000, want: 9000},
		"too large": {topology: layer2, mtu: 9000, nodes: []client.Object{usual, jumbo}, want: 1442,
			says:     "spec.mtu 9000 is not in effect, because the links of these nodes carry less: usual (1442), jumbo (8942)",
			saysNext: "the largest that all links carry is 1442"},
		"too large, Layer3": {topology: layer3, mtu: 1443, nodes: []client.Object{usual, jumbo}, want: 1442, says: "usual (1442)"},
		"too large, and the former one fits": {topology: layer2, mtu: 9000, former: 1400, nodes: []client.Object{usual}, want: 1400,
			says: "pods' interfaces have MTU 1400", saysNext: "the largest that all links carry is 1442"},
		"a link has become smaller": {topology: layer2, mtu: 8000, former: 8000, nodes: []client.Object{usual, jumbo}, want: 1442,
			says: "pods' interfaces have MTU 1442"},
		"encrypted":            {topology: layer2, mtu: 1442, nodes: []client.Object{usual}, encrypted: true, want: 1396, says: "usual (1396)"},
		"a segment's link":     {topology: localnet, mtu: 1600, nodes: []client.Object{usual, jumbo}, want: 1600},
		"a segment too narrow": {topology: localnet, mtu: 9000, nodes: []client.Object{usual, jumbo}, want: 1600, says: "jumbo (1600)"},
	} {
		t.Run(name, func(t *testing.T) {
			cn := kindtest.ClusterNetwork("4")
			if c.encrypted {
				cn.Spec.Encapsulation.Encryption = networkv1alpha1.EncryptionIPsec
			}
			cn.Spec.PhysicalNetworks = []networkv1alpha1.PhysicalNetwork{{Name: "dc", Link: "eth1"}}
			n := &networkv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Name: "blue"}}
			n.Spec.Topology, n.Spec.MTU, n.Status.MTU = c.topology, c.mtu, c.former
			if c.topology == localnet {
				n.Spec.PhysicalNetwork = "dc"
			}
			attached := func(env *kind.Env) { env.Attached = func(string) (map[string]int, bool) { return nil, true } }
			b := kindtest.New(t, network.Kinds, topology.KindPodNetwork, attached, append(c.nodes, cn, n)...)
			outcome := b.Reconcile("", "blue")
			got := kindtest.Get(b, n)
			ready := meta.FindStatusCondition(got.Status.Conditions, networkv1alpha1.ConditionReady)
			if got.Status.MTU != c.want || ready == nil {
				t.Fatalf("status is %+v", got.Status)
			}
			if want := c.says == ""; (ready.Status == metav1.ConditionTrue) != want || len(outcome.Events) == 0 != want ||
				!want && ready.Reason != networkv1alpha1.ReasonMTUMismatch ||
				!strings.Contains(ready.Message, c.says) || !strings.Contains(ready.Message, c.saysNext) {
				t.Errorf("condition is %+v, events are %v", ready, fmt.Sprint(outcome.Events))
			}
			b.ExpectSettled("", "blue")
		})
	}
}
