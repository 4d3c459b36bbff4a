package cli

import (
	"slices"
	"testing"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/trace"
)

// The notes are the problems on the packet's way, each once, and no others.
func TestNotes(t *testing.T) {
	problem := func(reason, object string) networkv1alpha1.Problem {
		return networkv1alpha1.Problem{Reason: reason, Object: object, Message: "m", NextStep: "n"}
	}
	silent := networkv1alpha1.ReasonTunnelSilent
	e := &ends{networks: map[string]*networkv1alpha1.NodeNetwork{"n1": {}, "n3": {}}, problems: []networkv1alpha1.Problem{
		problem("MTUMismatch", "ClusterNetwork/default"), problem(silent, "NodeNetwork/n2, NodeNetwork/n9"),
		problem(silent, "NodeNetwork/n22"), problem("HostError", "NodeNetwork/n1"), problem("NoAssignableNode", "EgressIP/e")}}
	e.networks["n1"].Name, e.networks["n1"].Status.Problems = "n1", []networkv1alpha1.Problem{problem("HostError", "")}
	e.networks["n3"].Name, e.networks["n3"].Status.Problems = "n3", []networkv1alpha1.Problem{problem("HostError", "")}
	from, to := trace.End{Kind: trace.Pod, Node: "n1"}, trace.End{Kind: trace.Pod, Node: "n2"}

	got := e.notes([]trace.Question{{From: from, To: to}, {From: from, To: to, V6: true}})
	want := []string{"ClusterNetwork/default: MTUMismatch: m -> n", "NodeNetwork/n2, NodeNetwork/n9: TunnelSilent: m -> n",
		"node n1: HostError: m -> n"}
	if !slices.Equal(got, want) {
		t.Errorf("notes %q, want %q", got, want)
	}
	got = e.notes([]trace.Question{{From: from, To: trace.OutsideEnd(anybody...)}})
	want = []string{"ClusterNetwork/default: MTUMismatch: m -> n", "EgressIP/e: NoAssignableNode: m -> n", "node n1: HostError: m -> n"}
	if !slices.Equal(got, want) {
		t.Errorf("notes %q, want %q", got, want)
	}
}
