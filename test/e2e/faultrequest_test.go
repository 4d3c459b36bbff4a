//go:build e2e

package e2e

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/test/lab"
)

// requestFaults are wrong requests, requests that do not fit the cluster, and foreign writes to the northbound
// database.
func requestFaults() []fault {
	rows, drift := networkv1alpha1.AreaTopology, networkv1alpha1.AreaDrift
	return []fault{
		{name: "a gateway link that does not exist", area: ofNodes, reason: networkv1alpha1.ReasonNoUplink,
			object: "NodeNetwork/n1", says: "eth9",
			inject: respec(func(s *networkv1alpha1.ClusterNetworkSpec) {
				s.Gateway.Overrides = []networkv1alpha1.GatewayOverride{
					{NodeSelector: onNode("n1", metav1.LabelSelectorOpIn), Interface: "eth9"}}
			})},
		{name: "an unreadable selector", area: rows, reason: networkv1alpha1.ReasonInvalidSpec, object: wholeNetwork,
			says: "overrides[0].nodeSelector",
			inject: respec(func(s *networkv1alpha1.ClusterNetworkSpec) {
				s.Gateway.Overrides = []networkv1alpha1.GatewayOverride{{NodeSelector: onNode("n1", "in"), Interface: bed.bridge()}}
			})},
		{name: "cluster IPs that no node routes", area: rows, reason: networkv1alpha1.ReasonServiceNetworkMismatch,
			object: wholeNetwork, says: "10.200.0.0/24", inject: foreignServiceCIDR},
		{name: "an egress IP without an assignable node", area: rows, reason: networkv1alpha1.ReasonNoAssignableNode,
			object: "EgressIP/fault", inject: egressWithoutNode},
		{name: "an egress IP that a host uses", area: rows, reason: networkv1alpha1.ReasonAddressInUse,
			object: "EgressIP/fault", inject: egressInUse},
		{name: "a cloned node with another node's address", area: rows, reason: networkv1alpha1.ReasonAddressConflict,
			object: "NodeNetwork/fault", says: "n1", inject: clonedNode},
		{name: "a row that blocks a node's row", area: rows, reason: networkv1alpha1.ReasonDatabaseRefused,
			object: "NodeNetwork/fault", inject: rowInTheWay},
		{name: "a foreign row with the name of a Weft row", area: drift, reason: networkv1alpha1.ReasonDrift,
			object: wholeNetwork, says: "is not Weft's", inject: collision},
		{name: "a manual change to the database", area: drift, reason: networkv1alpha1.ReasonDrift,
			object: wholeNetwork, says: "leaves as they are", inject: driftLeft},
		{name: "more nodes than subnets", area: networkv1alpha1.AreaAddresses,
			reason: networkv1alpha1.ReasonSubnetsExhausted, object: wholeNetwork, says: "10.244.0.0/16",
			inject: tooManyNodes, slow: true},
	}
}

func onNode(name string, operator metav1.LabelSelectorOperator) metav1.LabelSelector {
	return metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: corev1.LabelHostname,
		Operator: operator, Values: []string{name}}}}
}

// respec changes the ClusterNetwork's spec.
func respec(change func(*networkv1alpha1.ClusterNetworkSpec)) func(*wound) {
	return func(w *wound) {
		patch := func(change func(*networkv1alpha1.ClusterNetworkSpec)) {
			var cn networkv1alpha1.ClusterNetwork
			must(w.T, bed.api.Get(cleanup(), types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, &cn))
			before := client.MergeFrom(cn.DeepCopy())
			change(&cn.Spec)
			must(w.T, bed.api.Patch(cleanup(), &cn, before))
		}
		var was networkv1alpha1.ClusterNetworkSpec
		patch(func(s *networkv1alpha1.ClusterNetworkSpec) { was = *s.DeepCopy() })
		w.cure(func() { patch(func(s *networkv1alpha1.ClusterNetworkSpec) { *s = was }) })
		patch(change)
	}
}

func foreignServiceCIDR(w *wound) {
	w.create(&networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "fault"},
		Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.200.0.0/24"}}})
}

func egressWithoutNode(w *wound) { w.create(egressIP(w.T, "fault", "fault")) }

func egressInUse(w *wound) {
	w.cure(bed.unassignable)
	bed.assignable(w.T, "n1", true)
	e := egressIP(w.T, "fault", "fault")
	e.Spec.EgressIPs = []networkv1alpha1.EgressAddress{networkv1alpha1.EgressAddress(lab.Node(2).IPv4.Addr().String())}
	w.create(e)
}

// clonedNode is a machine cloned from another machine's disk: it reports the other machine's address.
func clonedNode(w *wound) {
	nodeWithoutMachine(w, "fault")
	var original, clone networkv1alpha1.NodeNetwork
	must(w.T, bed.api.Get(w.Context(), types.NamespacedName{Name: "n1"}, &original))
	must(w.T, bed.api.Get(w.Context(), types.NamespacedName{Name: "fault"}, &clone))
	before := client.MergeFrom(clone.DeepCopy())
	clone.Status.Gateway = original.Status.Gateway
	must(w.T, asAgent(w.T, "fault").Status().Patch(w.Context(), &clone, before))
}

// rowInTheWay creates a row with the name of a port that a new node needs.
func rowInTheWay(w *wound) {
	w.cure(func() { nbctl(w, "--if-exists", "ls-del", "somebodys") })
	nbctl(w, "ls-add", "somebodys", "--", "lsp-add", "somebodys", names.SwitchToRouter("fault"))
	nodeWithoutMachine(w, "fault")
}

func nodeWithoutMachine(w *wound, name string) {
	w.cure(w.removeUnscheduled)
	w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	adoptNode(w.T, name)
}

// removeUnscheduled removes the pods that DaemonSets created for deleted nodes. They were never scheduled, and their
// controller may take long to resync.
func (w *wound) removeUnscheduled() {
	unscheduled := client.MatchingFields{"spec.nodeName": ""}
	must(w.T, bed.api.DeleteAllOf(cleanup(), &corev1.Pod{}, client.InNamespace(product), unscheduled, client.GracePeriodSeconds(0)))
}

func collision(w *wound) {
	row := nbctl(w, "create", "Logical_Switch", "name="+names.NodeSwitch("n2"))
	w.cure(func() { nbctl(w, "destroy", "Logical_Switch", row) })
}

// driftLeft repeats a change to a row until it stays, because the operator must read the mode first.
func driftLeft(w *wound) {
	respec(func(s *networkv1alpha1.ClusterNetworkSpec) { s.Drift.Mode = networkv1alpha1.DriftReport })(w)
	port := names.PodPort(names.DefaultNetwork, namespace, "fault-2")
	w.again(time.Second, func() error {
		_, err := bed.Exec(cleanup(), bed.central, "ovn-nbctl", "--timeout=10", "clear", "Logical_Switch_Port", port, "port_security")
		return err
	})
}

// tooManyNodes creates one Node more than 10.244.0.0/16 has /24 subnets. No machine runs them.
func tooManyNodes(w *wound) {
	nodes, err := bed.Nodes()
	must(w.T, err)
	const label = "weft-fault"
	w.cure(w.removeUnscheduled)
	w.cure(func() {
		must(w.T, bed.api.DeleteAllOf(cleanup(), &corev1.Node{}, client.HasLabels{label}))
	})
	for i := range 256 - len(nodes) + 1 {
		must(w.T, bed.api.Create(w.Context(),
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("fault-%03d", i),
				Labels: map[string]string{label: ""}}}))
	}
}

func nbctl(w *wound, argv ...string) string {
	w.Helper()
	return w.on(bed.central, append([]string{"ovn-nbctl", "--timeout=10"}, argv...)...)
}
