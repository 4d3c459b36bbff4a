package facts_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
)

func TestPhysicalNetworksOfANode(t *testing.T) {
	rack := &metav1.LabelSelector{MatchLabels: map[string]string{"rack": "a"}}
	all := []networkv1alpha1.PhysicalNetwork{{Name: "dc", Link: "eth1", NodeSelector: rack}, {Name: "storage", Bridge: "br-s"}}
	for want, node := range map[string]labels.Set{"dc eth1 , storage  br-s": {"rack": "a"}, "storage  br-s": {"rack": "b"}} {
		found, err := facts.NodePhysicalNetworks(all, node)
		var have []string
		for _, p := range found {
			have = append(have, strings.Join([]string{string(p.Name), p.Link, p.Bridge}, " "))
		}
		if got := strings.Join(have, ", "); err != nil || got != want {
			t.Errorf("%v: %q, %v; want %q", node, got, err, want)
		}
	}
	if err := facts.CheckPhysicalNetworks(all); err != nil {
		t.Error(err)
	}
	rack.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "rack", Operator: "Like"}}
	const field = "spec.physicalNetworks[0].nodeSelector"
	_, err := facts.NodePhysicalNetworks(all, nil)
	for _, err := range []error{err, facts.CheckPhysicalNetworks(all)} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("error is %v; want %s", err, field)
		}
	}
}

// The reason why a node does not reach a physical network names both.
func TestNodesWithoutThePhysicalNetwork(t *testing.T) {
	type status = networkv1alpha1.NodePhysicalNetworkStatus
	dc := []networkv1alpha1.NodePhysicalNetwork{{Name: "dc", Link: "eth1"}}
	for name, test := range map[string]struct {
		network  string
		selected []networkv1alpha1.NodePhysicalNetwork
		reported []status
		want     string // empty: the node reaches it
	}{
		"another topology": {},
		"connected":        {"dc", dc, []status{{Name: "dc", Ready: true, Bridge: "breth1"}}, ""},
		"the gateway's":    {"physnet", nil, []status{{Name: "physnet", Ready: true, Bridge: "breth0"}}, ""},
		"not selected":     {"dc", nil, []status{{Name: "storage", Ready: true}}, "node n1 has no physical network dc: no entry"},
		"not reported yet": {"dc", dc, nil, "node n1 is not connected with physical network dc: weft-agent has not reported it yet"},
		"failed": {"dc", dc, []status{{Name: "dc", Message: "link eth1: the node has no such link"}},
			"node n1 is not connected with physical network dc: link eth1: the node has no such link"},
		"no gateway": {"physnet", nil, nil, "node n1 has no physical network physnet: its gateway has no bridge"},
	} {
		t.Run(name, func(t *testing.T) {
			nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
			nn.Spec.PhysicalNetworks, nn.Status.PhysicalNetworks = test.selected, test.reported
			err := facts.PodNetwork{PhysicalNetwork: test.network}.MissingOn(nn)
			if (err == nil) != (test.want == "") || err != nil && !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("%v; want %q", err, test.want)
			}
		})
	}
}

func TestUnknownPhysicalNetworks(t *testing.T) {
	cn := networkv1alpha1.ClusterNetworkSpec{PhysicalNetworks: []networkv1alpha1.PhysicalNetwork{{Name: "dc", Link: "eth1"}}}
	for network, known := range map[string]bool{"": true, "dc": true, "physnet": true, "storage": false} {
		err := facts.PodNetwork{PhysicalNetwork: network}.UnknownTo(cn)
		if (err == nil) != known || err != nil && !strings.Contains(err.Error(), "no entry "+network+" in spec.physicalNetworks") {
			t.Errorf("%q: %v", network, err)
		}
	}
}
