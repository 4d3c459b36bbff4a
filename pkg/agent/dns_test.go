package agent_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8stypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/cni/cniwire"
)

// The result has the cluster's DNS settings unless the administrator set others in the network configuration.
func TestResultHasTheClustersDNS(t *testing.T) {
	n := readyNode(t)
	first, second, third := n.newPod("first", 5), n.newPod("second", 6), n.newPod("third", 7)
	for _, p := range []pod{first, second, third} {
		n.givePort(p)
	}
	if diff := cmp.Diff(types.DNS{}, n.add(first).DNS); diff != "" {
		t.Errorf("without settings (-want +got):\n%s", diff)
	}
	nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
	n.must(api.Patch(n.Context(), nn, client.RawPatch(k8stypes.MergePatchType,
		[]byte(`{"spec":{"dns":{"nameservers":["10.96.0.10"],"domain":"cluster.local"}}}`))))
	n.until("the generation", func() error {
		return isTrue(n.status().ObservedGeneration == nn.Generation, "not observed")
	})
	want := types.DNS{
		Nameservers: []string{"10.96.0.10"}, Search: []string{"demo.svc.cluster.local", "svc.cluster.local", "cluster.local"},
		Options: []string{"ndots:5"},
	}
	if diff := cmp.Diff(want, n.add(second).DNS); diff != "" {
		t.Errorf("the cluster's settings (-want +got):\n%s", diff)
	}
	req := third.request(n, cniwire.Add)
	req.Config = json.RawMessage(fmt.Sprintf(`{"cniVersion":"1.1.0","name":"weft","type":"weft-cni","socket":%q,`+
		`"dns":{"nameservers":["192.0.2.53"],"domain":"example.org"}}`, n.socket()))
	raw, err := n.send(t.Context(), req)
	n.must(err)
	var result types100.Result
	n.must(json.Unmarshal(raw, &result))
	if diff := cmp.Diff(types.DNS{Nameservers: []string{"192.0.2.53"}, Domain: "example.org"}, result.DNS); diff != "" {
		t.Errorf("the network configuration's settings (-want +got):\n%s", diff)
	}
}
