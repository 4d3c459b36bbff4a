package facts_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
)

// A changed gateway reaches few nodes at a time, and none after a node on which it does not work.
func TestNodesChangeTheirGatewayInTurn(t *testing.T) {
	former := networkv1alpha1.NodeGateway{Mode: networkv1alpha1.GatewayShared, SNAT: networkv1alpha1.SNATNode, Move: "eth0 Bridge"}
	wanted := networkv1alpha1.NodeGateway{Mode: networkv1alpha1.GatewayShared, SNAT: networkv1alpha1.SNATNone}
	const yes, no, late = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown // late: of a former generation
	node := func(name string, gateway networkv1alpha1.NodeGateway, unconfirmed bool, ready metav1.ConditionStatus, reason string,
		change ...func(*networkv1alpha1.NodeNetwork)) networkv1alpha1.NodeNetwork {
		nn := networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 7}}
		nn.Spec.Gateway, nn.Spec.Gateway.Unconfirmed = gateway, unconfirmed
		nn.Status.Gateway = &networkv1alpha1.NodeGatewayStatus{}
		c := metav1.Condition{Type: networkv1alpha1.ConditionGatewayReady, Status: ready, Reason: reason, Message: "why", ObservedGeneration: 7}
		if ready == late {
			c.Status, c.ObservedGeneration = yes, 6
		}
		nn.Status.Conditions = []metav1.Condition{c}
		for _, f := range change {
			f(&nn)
		}
		return nn
	}
	gone := func(nn *networkv1alpha1.NodeNetwork) { nn.Status.Gateway = nil }
	usurped := func(nn *networkv1alpha1.NodeNetwork) {
		nn.Status.Conditions = append(nn.Status.Conditions, metav1.Condition{Type: networkv1alpha1.ConditionGatewayAccepted,
			Status: no, Message: "another node has it"})
	}
	silent := func(nn *networkv1alpha1.NodeNetwork) { nn.Status.Conditions = nil }
	works, broken := node("n1", former, false, yes, ""), node("n1", former, false, no, networkv1alpha1.ReasonNoUplink)
	fresh := node("n1", networkv1alpha1.NodeGateway{}, false, no, "", silent)
	changing, confirmed := node("n2", wanted, true, late, ""), node("n2", wanted, true, yes, "")
	unheard := node("n2", wanted, true, late, "", silent)
	waiting := node("n2", wanted, true, no, networkv1alpha1.ReasonUplinkWaiting)
	kept := node("n2", wanted, true, no, networkv1alpha1.ReasonNoUplink)
	refused := node("n2", wanted, true, no, networkv1alpha1.ReasonUplinkRefused)
	lost := node("n2", wanted, true, no, networkv1alpha1.ReasonNoUplink, gone)
	mute := node("n2", wanted, true, no, networkv1alpha1.ReasonNextHopsUnusable)
	taken := node("n2", wanted, true, yes, "", usurped)
	other := node("n2", former, false, no, networkv1alpha1.ReasonUplinkRolledBack)
	second := node("n3", wanted, true, late, "")
	own := func(nn networkv1alpha1.NodeNetwork, spec networkv1alpha1.NodeGateway) networkv1alpha1.NodeNetwork {
		spec.Unconfirmed = nn.Spec.Gateway.Unconfirmed
		nn.Spec.Gateway = spec
		return nn
	}
	type nodes = []networkv1alpha1.NodeNetwork
	for name, test := range map[string]struct {
		node    networkv1alpha1.NodeNetwork
		others  nodes
		atATime int32
		lost    bool
		want    networkv1alpha1.SNATPolicy // of the next gateway
		unsure  bool                       // it is unconfirmed
	}{
		"a fresh node":                             {fresh, nodes{changing, mute}, 1, false, "None", false},
		"the first":                                {works, nodes{works, other}, 1, false, "None", true},
		"while one changes":                        {works, nodes{changing}, 1, false, "Node", false},
		"while one has not reported at all":        {works, nodes{unheard}, 1, false, "Node", false},
		"while one waits for its move":             {works, nodes{waiting}, 1, false, "Node", false},
		"after one that works":                     {works, nodes{confirmed}, 1, false, "None", true},
		"two at a time":                            {works, nodes{changing}, 2, false, "None", true},
		"not three":                                {works, nodes{changing, second}, 2, false, "Node", false},
		"no limit is one":                          {works, nodes{changing}, 0, false, "Node", false},
		"after one that lacks the link":            {works, nodes{kept}, 1, false, "None", true},
		"after one that refused its move":          {works, nodes{refused}, 1, false, "None", true},
		"after one that has no gateway now":        {works, nodes{lost}, 9, false, "Node", false},
		"after one whose next hop is silent":       {works, nodes{mute}, 9, false, "Node", false},
		"after one with an address of another":     {works, nodes{taken}, 9, false, "Node", false},
		"after one that had failed before":         {works, nodes{other}, 1, false, "None", true},
		"a node that did not work before":          {broken, nodes{changing}, 1, false, "None", false},
		"a node whose kubelet is silent":           {works, nodes{changing}, 1, true, "None", false},
		"a correction where it failed":             {own(mute, former), nodes{second}, 1, false, "None", true},
		"a correction where it changes":            {own(changing, former), nodes{second}, 1, false, "None", true},
		"the next change where the link is absent": {own(kept, former), nodes{second}, 1, false, "Node", true},
		"the change is under way":                  {changing, nil, 1, false, "None", true},
		"the change failed":                        {mute, nil, 1, false, "None", true},
		"the change is confirmed":                  {confirmed, nodes{mute}, 1, false, "None", false},
		"another node has the address":             {taken, nil, 1, false, "None", true},
	} {
		t.Run(name, func(t *testing.T) {
			got := facts.NextGateway(&test.node, wanted, !test.lost, test.others, test.atATime)
			if got.SNAT != test.want || got.Unconfirmed != test.unsure || got.Move != test.node.Spec.Gateway.Move {
				t.Errorf("the next gateway is %+v", got)
			}
		})
	}
	for _, failed := range (nodes{lost, mute}) {
		if got := facts.FailedGateway(&failed); got != "node n2: why" {
			t.Errorf("reason %s: %q", failed.Status.Conditions[0].Reason, got)
		}
	}
	if got := facts.FailedGateway(&taken); got != "node n2: another node has it" {
		t.Errorf("another node has the address: %q", got)
	}
	if got := facts.FailedGateway(&kept) + facts.FailedGateway(&changing) + facts.FailedGateway(&other); got != "" {
		t.Errorf("nodes that have not failed: %q", got)
	}
}

// Each field of a node's gateway is part of its change, or says how far the change is.
func TestAChangeOfAGatewayNamesItsFields(t *testing.T) {
	course := []string{"Move", "Unconfirmed"}
	kind := reflect.TypeFor[networkv1alpha1.NodeGateway]()
	for i := range kind.NumField() {
		var changed networkv1alpha1.NodeGateway
		switch field := reflect.ValueOf(&changed).Elem().Field(i); field.Kind() {
		case reflect.String:
			field.SetString("x")
		case reflect.Bool:
			field.SetBool(true)
		default:
			field.Set(reflect.MakeSlice(field.Type(), 1, 1))
		}
		name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
		want := []string{name}
		if slices.Contains(course, kind.Field(i).Name) {
			want = nil
		}
		if got := facts.GatewayChange(networkv1alpha1.NodeGateway{}, changed); !slices.Equal(got, want) {
			t.Errorf("%s: fields %v, want %v", name, got, want)
		}
	}
}
