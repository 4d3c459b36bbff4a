package facts

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// small is a ClusterNetwork with entries "10.0.0.0/24 26": network and prefix length of a node's subnet.
func small(t *testing.T, entries ...string) *networkv1alpha1.ClusterNetwork {
	t.Helper()
	cn := networkOf()
	for _, text := range entries {
		var entry networkv1alpha1.ClusterNetworkEntry
		if _, err := fmt.Sscan(text, &entry.CIDR, &entry.HostPrefix); err != nil {
			t.Fatal(err)
		}
		cn.Spec.ClusterNetwork = append(cn.Spec.ClusterNetwork, entry)
	}
	return cn
}

func planOf(t *testing.T, entries ...string) Plan {
	t.Helper()
	plan, err := ParseClusterNetwork(small(t, entries...))
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// given completes a spec, and returns its networks as text: subnets, leaving subnets and MACs.
func given(t *testing.T, have networkv1alpha1.NodeNetworkSpec, plan Plan, settings Settings,
	others ...networkv1alpha1.NodeNetworkSpec) (networkv1alpha1.NodeNetworkSpec, string) {
	t.Helper()
	spec, err := NodeSpec(have, plan, others, settings)
	if err != nil {
		t.Fatal(err)
	}
	again, err := NodeSpec(spec, plan, others, Settings{Idle: settings.Idle})
	if err != nil || !slices.Equal(again.PodSubnets, spec.PodSubnets) || again.GatewayMACAddress != spec.GatewayMACAddress ||
		again.ManagementPort.MACAddress != spec.ManagementPort.MACAddress {
		t.Errorf("another pass makes %+v of %+v (%v)", again, spec, err)
	}
	return spec, fmt.Sprintf("%v leaving %v, host %s, gateway %s", spec.PodSubnets, spec.LeavingSubnets,
		spec.ManagementPort.MACAddress, spec.GatewayMACAddress)
}

func equal(t *testing.T, what, have, want string) {
	t.Helper()
	if have != want {
		t.Errorf("%s:\n%s, want\n%s", what, have, want)
	}
}

const v4first, v6first = "10.0.0.0/24 26", "fd00:1::/48 64"

// A family that is added changes no MAC, whichever family is older, because pods remember their gateway's.
func TestAFamilyIsAdded(t *testing.T) {
	spec, text := given(t, networkv1alpha1.NodeNetworkSpec{}, planOf(t, v4first), Settings{})
	equal(t, "IPv4", text, "[10.0.0.0/26] leaving [], host 0a:58:0a:00:00:02, gateway ")
	_, text = given(t, spec, planOf(t, v4first, v6first), Settings{})
	equal(t, "IPv6 added", text, "[10.0.0.0/26 fd00:1::/64] leaving [], host 0a:58:0a:00:00:02, gateway ")

	spec, text = given(t, networkv1alpha1.NodeNetworkSpec{}, planOf(t, v6first), Settings{})
	equal(t, "IPv6", text, "[fd00:1::/64] leaving [], host "+string(spec.ManagementPort.MACAddress)+", gateway ")
	router := macAddress(Gateways(subnetsIn(t, spec)))
	_, text = given(t, spec, planOf(t, v6first, v4first), Settings{})
	equal(t, "IPv4 added", text, fmt.Sprintf("[fd00:1::/64 10.0.0.0/26] leaving [], host %s, gateway %s",
		spec.ManagementPort.MACAddress, router))
	_, text = given(t, networkv1alpha1.NodeNetworkSpec{}, planOf(t, v6first, v4first), Settings{})
	equal(t, "both from the start", text, "[fd00:1::/64 10.0.0.0/26] leaving [], host 0a:58:0a:00:00:02, gateway ")
}

// A node whose subnets are full gets one of the next entry, and works with what it has without such an entry.
func TestAFullNodeGetsAFurtherSubnet(t *testing.T) {
	spec, _ := given(t, networkv1alpha1.NodeNetworkSpec{}, planOf(t, v4first), Settings{})
	full := Settings{Full: []bool{true}}
	_, text := given(t, spec, planOf(t, v4first), full)
	equal(t, "no other entry", text, "[10.0.0.0/26] leaving [], host 0a:58:0a:00:00:02, gateway ")
	more := planOf(t, v4first, "10.1.0.0/26 27", "10.2.0.0/26 27")
	if IsComplete(spec, more, full) || !IsComplete(spec, more, Settings{}) || !IsComplete(spec, planOf(t, v4first), full) {
		t.Error("IsComplete is wrong")
	}
	taken := networkv1alpha1.NodeNetworkSpec{NodeID: 9, PodSubnets: []networkv1alpha1.CIDR{"10.1.0.0/27", "10.1.0.32/27"}}
	further, text := given(t, spec, more, full, taken)
	equal(t, "the second entry is exhausted", text, "[10.0.0.0/26 10.2.0.0/27] leaving [], host 0a:58:0a:00:00:02, gateway ")
	_, text = given(t, further, more, full, taken)
	equal(t, "and full again", text, "[10.0.0.0/26 10.2.0.0/27] leaving [], host 0a:58:0a:00:00:02, gateway ")
	if !Lacking(further, more, full) {
		t.Error("the node does not wait for a subnet of the second entry")
	}
	_, text = given(t, further, more, full)
	equal(t, "with the second entry free", text,
		"[10.0.0.0/26 10.2.0.0/27 10.1.0.0/27] leaving [], host 0a:58:0a:00:00:02, gateway ")
}

// A node keeps a subnet of a removed entry while a pod uses it, and the MACs for ever.
func TestAnEntryIsReplaced(t *testing.T) {
	spec, _ := given(t, networkv1alpha1.NodeNetworkSpec{}, planOf(t, v4first), Settings{})
	next := planOf(t, "10.1.0.0/24 26")
	spec, text := given(t, spec, next, Settings{})
	equal(t, "in use", text, "[10.0.0.0/26 10.1.0.0/26] leaving [10.0.0.0/26], host 0a:58:0a:00:00:02, gateway ")
	idle := Settings{Idle: subnetsIn(t, spec)[:1]}
	spec, text = given(t, spec, next, idle)
	equal(t, "idle", text, "[10.1.0.0/26] leaving [], host 0a:58:0a:00:00:02, gateway 0a:58:0a:00:00:01")
	_, text = given(t, spec, planOf(t, "10.1.0.0/16 26"), Settings{})
	equal(t, "widened", text, "[10.1.0.0/26] leaving [], host 0a:58:0a:00:00:02, gateway 0a:58:0a:00:00:01")
}

// A node keeps the last subnet of a family until it has another, even if no pod uses it. A subnet that takes room from another entry goes.
func TestTheLastSubnetStays(t *testing.T) {
	spec, _ := given(t, networkv1alpha1.NodeNetworkSpec{}, planOf(t, v4first, v6first), Settings{})
	spec.PodSubnets = spec.PodSubnets[:2]
	idle := Settings{Idle: subnetsIn(t, spec)}
	full := planOf(t, "10.1.0.0/26 26", v6first)
	taken := networkv1alpha1.NodeNetworkSpec{NodeID: 9, PodSubnets: []networkv1alpha1.CIDR{"10.1.0.0/26"}}
	spec, text := given(t, spec, full, idle, taken)
	equal(t, "no other subnet is left", text, "[10.0.0.0/26 fd00:1::/64] leaving [10.0.0.0/26], host 0a:58:0a:00:00:02, gateway ")
	if full.GivesUp(spec, idle.Idle) || !Lacking(spec, full, idle) {
		t.Error("the node does not wait for another subnet, or gives up the last")
	}
	_, text = given(t, spec, planOf(t, v6first), idle)
	equal(t, "the family left the network", text, "[fd00:1::/64] leaving [], host 0a:58:0a:00:00:02, gateway 0a:58:0a:00:00:01")
	_, text = given(t, spec, full, idle)
	equal(t, "a subnet is left", text, "[fd00:1::/64 10.1.0.0/26] leaving [], host 0a:58:0a:00:00:02, gateway 0a:58:0a:00:00:01")
	within := planOf(t, "10.0.0.0/27 27", v6first)
	taken.PodSubnets = []networkv1alpha1.CIDR{"10.0.0.0/27"}
	if !within.GivesUp(spec, idle.Idle) {
		t.Error("the node keeps a subnet that takes room from another entry")
	}
	_, text = given(t, spec, within, idle, taken)
	equal(t, "it takes room from another entry", text, "[fd00:1::/64] leaving [], host 0a:58:0a:00:00:02, gateway 0a:58:0a:00:00:01")
}

func subnetsIn(t *testing.T, spec networkv1alpha1.NodeNetworkSpec) (found []netip.Prefix) {
	t.Helper()
	found, err := prefixes("podSubnets", spec.PodSubnets)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A removed family leaves with its service and join networks, and is gone when no node has a subnet of it.
func TestARemovedFamilyLeaves(t *testing.T) {
	cn := small(t, v4first, v6first)
	nodes := []corev1.Node{nodeAt("n1", "192.0.2.1")}
	judged(t, cn, nodes, nil)
	plan, err := PlanInForce(cn)
	if err != nil {
		t.Fatal(err)
	}
	nn := networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	nn.Spec, _ = given(t, nn.Spec, plan, Settings{})
	cn.Spec.ClusterNetwork, cn.Spec.ServiceNetwork = cn.Spec.ClusterNetwork[:1], cn.Spec.ServiceNetwork[:1]
	text := judged(t, cn, nodes, []networkv1alpha1.NodeNetwork{nn})
	equal(t, "removed", text, strings.Join([]string{"10.0.0.0/24 InForce", "10.96.0.0/16 InForce", "100.64.0.0/16 InForce",
		"fd00:1::/48 Leaving: pods still have addresses of it on node n1",
		"fd00:10:96::/112 Leaving: waits for the networks of pods of its family",
		"fd98::/64 Leaving: waits for the networks of pods of its family"}, "\n"))
	if plan, err = PlanInForce(cn); err != nil || len(plan.Network("").Clusters) != 2 || len(plan.Network("").Join) != 2 {
		t.Fatalf("%+v, %v", plan, err)
	}
	var leaving string
	nn.Spec, leaving = given(t, nn.Spec, plan, Settings{})
	equal(t, "in use", leaving, "[10.0.0.0/26 fd00:1::/64] leaving [fd00:1::/64], host 0a:58:0a:00:00:02, gateway ")
	if len(nn.Spec.JoinAddresses) != 2 || len(nn.Spec.ServiceSubnets) != 2 || len(nn.Spec.ClusterSubnets) != 2 {
		t.Errorf("%+v", nn.Spec)
	}
	nn.Spec, _ = given(t, nn.Spec, plan, Settings{Idle: subnetsIn(t, nn.Spec)[1:]})
	text = judged(t, cn, nodes, []networkv1alpha1.NodeNetwork{nn})
	equal(t, "gone", text, "10.0.0.0/24 InForce\n10.96.0.0/16 InForce\n100.64.0.0/16 InForce")
}

// The join network of the family that was first stays first, because MACs are derived from it.
func TestTheFirstFamilyOfTheJoinSwitchStaysFirst(t *testing.T) {
	cn := small(t, v6first)
	cn.Spec.ServiceNetwork = cn.Spec.ServiceNetwork[1:]
	nodes := []corev1.Node{nodeAt("n1", "192.0.2.1")}
	judged(t, cn, nodes, nil)
	cn.Spec.ClusterNetwork = append(cn.Spec.ClusterNetwork, small(t, v4first).Spec.ClusterNetwork...)
	cn.Spec.ServiceNetwork = append(cn.Spec.ServiceNetwork, "10.96.0.0/16")
	for range 2 {
		judged(t, cn, nodes, nil)
		plan, err := PlanInForce(cn)
		if join := fmt.Sprint(plan.Network("").Join); err != nil || join != "[fd98::/64 100.64.0.0/16]" {
			t.Errorf("join networks %s, %v", join, err)
		}
	}
}
