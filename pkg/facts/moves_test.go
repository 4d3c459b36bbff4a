package facts_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
)

func TestNodesMoveInTurn(t *testing.T) {
	const move = "eth0 Bridge"
	node := func(name, wanted, allowed, reason string) networkv1alpha1.NodeNetwork {
		nn := networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: name}}
		nn.Status.Move, nn.Spec.Gateway.Move = wanted, allowed
		nn.Status.Conditions = []metav1.Condition{{Type: networkv1alpha1.ConditionGatewayReady, Reason: reason, Message: "why"}}
		return nn
	}
	waiting := node("n1", move, "", networkv1alpha1.ReasonUplinkWaiting)
	moving, permitted := node("n2", move, move, networkv1alpha1.ReasonUplinkMoving),
		node("n3", move, move, networkv1alpha1.ReasonUplinkWaiting)
	moved := node("n4", "", move, networkv1alpha1.ReasonAsExpected)
	refused, undone := node("n5", move, move, networkv1alpha1.ReasonUplinkRefused),
		node("n6", move, move, networkv1alpha1.ReasonUplinkRolledBack)
	never, other := node("n7", "", "", networkv1alpha1.ReasonAsExpected),
		node("n8", "eth1 Interface", move, networkv1alpha1.ReasonUplinkWaiting)
	settled := node("n9", "", move, networkv1alpha1.ReasonUplinkRolledBack)
	type nodes = []networkv1alpha1.NodeNetwork
	for name, test := range map[string]struct {
		node    networkv1alpha1.NodeNetwork
		others  nodes
		atATime int32
		want    string
	}{
		"alone":                             {waiting, nil, 1, move},
		"the first of many":                 {waiting, nodes{waiting, node("n2", move, "", ""), moved, never}, 1, move},
		"while one moves":                   {waiting, nodes{moving}, 1, ""},
		"while one has just been permitted": {waiting, nodes{permitted}, 1, ""},
		"two at a time":                     {waiting, nodes{moving, never}, 2, move},
		"not three":                         {waiting, nodes{moving, permitted}, 2, ""},
		"behind one that was refused":       {waiting, nodes{refused}, 1, move},
		"behind one that was rolled back":   {waiting, nodes{undone}, 5, ""},
		"when that is settled":              {waiting, nodes{settled}, 1, move},
		"something else":                    {other, nodes{moving}, 1, move},
		"something else, in its turn":       {other, nodes{moved}, 1, "eth1 Interface"},
		"no limit is one":                   {waiting, nodes{moving}, 0, ""},
		"what was allowed stays":            {moved, nodes{undone, moving}, 1, move},
		"no request":                        {never, nodes{waiting}, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := facts.Move(&test.node, test.others, test.atATime); got != test.want {
				t.Errorf("may move %q, want %q", got, test.want)
			}
		})
	}
	if got := facts.WaitingToMove(nodes{other, moving, waiting, undone, never}); len(got) != 2 || got[0] != "n1" || got[1] != "n8" {
		t.Errorf("waiting nodes: %v", got)
	}
	if got := facts.RolledBack(&undone); got != "node n6: why" {
		t.Errorf("rolled back: %q", got)
	}
}
