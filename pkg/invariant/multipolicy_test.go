package invariant_test

import (
	"net/netip"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/model"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	cniv1beta1 "github.com/weft-network/weft/apis/cni/v1beta1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/invariant"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// onGreen selects the pod c on the Network green.
var onGreen = facts.PodSelector{Network: "green", Namespace: "default", Pods: labels.SelectorFromSet(labels.Set{"policy": "yes"})}

// addMultiPolicy adds the Network green, a port of the pod c on it, and a policy that isolates that port.
func (w *world) addMultiPolicy() {
	w.Helper()
	policy := &cniv1beta1.MultiNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "multi"}}
	policy.Spec.PodSelector.MatchLabels = map[string]string{"policy": "yes"}
	peer := networkingv1.NetworkPolicyPeer{PodSelector: &policy.Spec.PodSelector}
	policy.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{peer}}}
	w.MultiNetworkPolicies = []invariant.MultiNetworkPolicy{{Policy: policy, Networks: []string{"green"}}}
	read, err := facts.ParseMultiNetworkPolicy(policy, []string{"green"}, nil)
	if err != nil {
		w.Fatal(err)
	}
	group, set := topology.PodGroupKey(onGreen), topology.PodSetKey(onGreen)
	green := w.addNetwork("green")
	w.Networks[len(w.Networks)-1].Status.Attachments = 1
	w.request("c", "green")
	w.add(topology.PodGroupUnit(group))
	w.add(topology.PodSetUnit(set))
	w.add(topology.MultiNetworkPolicyUnit(read))
	w.add(topology.PodPortsUnit("default", "c", []topology.PodPort{{Namespace: "default", Name: "c", UID: "uid-c", Node: "n2",
		Chassis: "chassis-n2", Network: green, Interface: "net1", Addresses: []netip.Prefix{netip.MustParsePrefix("10.244.0.9/24")},
		MAC: topology.NetworkMAC("c"), Slot: 16, Selected: []unit.Key{group, set}}}))
}

// multiViolations change a good world so that it violates an invariant on a Network.
var multiViolations = []violation{
	{"PolicyOfSelected", "a port on a Network that is not in the group", []string{"podgroup/", "is missing"}, func(w *world) {
		find[nbdb.PortGroup](w, nbdb.PortGroupTable, names.PodGroup(topology.PodGroupKey(onGreen).Name())).Ports = nil
	}},
	{"PolicyOfSelected", "a port of the cluster network in the group", []string{"podgroup/", "should not be there"}, func(w *world) {
		g := find[nbdb.PortGroup](w, nbdb.PortGroupTable, names.PodGroup(topology.PodGroupKey(onGreen).Name()))
		g.Ports = append(g.Ports, w.port("c").UUID)
	}},
	{"PolicyHasRules", "a MultiNetworkPolicy without an ACL", []string{"multinetworkpolicy/default/multi has no ACL"}, func(w *world) {
		find[nbdb.PortGroup](w, nbdb.PortGroupTable, names.PodGroup(topology.PodGroupKey(onGreen).Name())).ACLs = nil
		w.Northbound[nbdb.ACLTable] = slices.DeleteFunc(w.Northbound[nbdb.ACLTable], func(row model.Model) bool {
			return row.(*nbdb.ACL).ExternalIDs[unit.OwnerKey] == "multinetworkpolicy/default/multi"
		})
	}},
	{"OwnerLives", "of a MultiNetworkPolicy that is gone", []string{"multinetworkpolicy/default/gone"}, func(w *world) {
		w.put(&nbdb.ACL{UUID: "1", Match: "ip4", ExternalIDs: map[string]string{unit.OwnerKey: "multinetworkpolicy/default/gone"}})
		w.policyGroup().ACLs = append(w.policyGroup().ACLs, "1")
	}},
}
