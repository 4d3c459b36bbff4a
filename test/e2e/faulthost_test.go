//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ports"
)

// hostFaults are what people and other programs do to a node.
func hostFaults(t *testing.T) []fault {
	const node = "NodeNetwork/n1"
	host, far := networkv1alpha1.ReasonHostError, other(bed.operatorNode(t))
	return []fault{
		{name: "another network's CNI configuration sorts first", area: ofNodes,
			reason: networkv1alpha1.ReasonOtherConfiguration, object: node, says: "00-other.conflist",
			inject: otherCNI},
		{name: "IPv6 switched off on the management port", area: ofNodes, reason: host, object: node,
			says: names.ManagementInterface, inject: withoutIPv6},
		{name: "a second link on the bridge to the outside", area: ofNodes, reason: networkv1alpha1.ReasonNoUplink,
			object: node, says: "may all lead outside", inject: secondOnBridge},
		{name: "a link with a smaller MTU than the others", area: networkv1alpha1.AreaTopology,
			reason: networkv1alpha1.ReasonMTUMismatch, object: wholeNetwork, says: "n2 (", inject: smallerLink},
		{name: "Geneve stopped between nodes", area: ofNodes, reason: networkv1alpha1.ReasonTunnelSilent,
			object: "NodeNetwork/" + far, inject: withoutGeneve(far)},
		{name: "a Node whose InternalIP is not on the node", area: ofNodes, reason: host, object: node,
			says: "172.30.0.77", inject: otherInternalIP},
		{name: "a node without a free address", area: networkv1alpha1.AreaAddresses,
			reason: networkv1alpha1.ReasonAddressesExhausted, object: node, inject: fullNode, slow: true},
	}
}

func otherCNI(w *wound) {
	const file = "/etc/cni/net.d/00-other.conflist"
	w.cure(func() { w.on("n1", "rm", "-f", file) })
	w.on("n1", "sh", "-c",
		`echo '{"cniVersion":"1.0.0","name":"other","plugins":[{"type":"bridge","bridge":"cni0","ipam":{"type":"host-local"}}]}' > `+file)
}

// withoutIPv6 disables IPv6, as hardening guides recommend.
func withoutIPv6(w *wound) {
	set := func(value string) {
		w.on("n1", "sh", "-c", "echo "+value+" > /proc/sys/net/ipv6/conf/"+names.ManagementInterface+"/disable_ipv6")
	}
	w.cure(func() { set("0") })
	set("1")
}

func secondOnBridge(w *wound) {
	const link = "fault0"
	w.cure(func() { w.on("n1", "ip", "link", "del", link) })
	w.on("n1", "ip", "link", "add", link, "type", "veth", "peer", "name", "fault1")
	w.cure(func() { w.on("n1", "ovs-vsctl", "--timeout=10", "del-port", bed.bridge(), link) })
	w.on("n1", "ovs-vsctl", "--timeout=10", "add-port", bed.bridge(), link)
}

func smallerLink(w *wound) {
	usual := clusterMTU(w.T) + networkv1alpha1.GeneveOverheadIPv4
	set := func(mtu int) {
		w.on("n2", "ovs-vsctl", "--timeout=10", "set", "Interface", bed.bridge(), fmt.Sprintf("mtu_request=%d", mtu))
	}
	w.cure(func() { set(usual) })
	set(usual - 100)
}

// withoutGeneve is a firewall between the nodes. It drops what leaves a node's cable, because the userspace datapath
// bypasses the node's own rules.
func withoutGeneve(node string) func(*wound) {
	return func(w *wound) {
		nft := func(rules string) {
			out, err := exec.CommandContext(cleanup(), "ip", "netns", "exec", bed.Name+"-fab", "nft", rules).CombinedOutput()
			if err != nil {
				w.Fatalf("nft %s: %v: %s", rules, err, out)
			}
		}
		w.cure(func() { nft("delete table netdev weft-fault") })
		nft("add table netdev weft-fault; add chain netdev weft-fault in { type filter hook ingress device " + node +
			" priority 0; }; add rule netdev weft-fault in udp dport " + strconv.Itoa(ports.Geneve) + " drop")
	}
}

// otherInternalIP gives a node another address while its Node still has the previous one. kubelet would correct
// that.
func otherInternalIP(w *wound) {
	stopped("n1", "kubelet")(w)
	addresses := func(change func(*corev1.NodeAddress)) {
		var node corev1.Node
		must(w.T, bed.api.Get(cleanup(), types.NamespacedName{Name: "n1"}, &node))
		before := client.MergeFrom(node.DeepCopy())
		for i := range node.Status.Addresses {
			change(&node.Status.Addresses[i])
		}
		must(w.T, bed.api.Status().Patch(cleanup(), &node, before))
	}
	was := ""
	w.cure(func() {
		addresses(func(a *corev1.NodeAddress) {
			if a.Address == "172.30.0.77" {
				a.Address = was
			}
		})
	})
	addresses(func(a *corev1.NodeAddress) {
		if ip, err := netip.ParseAddr(a.Address); err == nil && ip.Is4() && a.Type == corev1.NodeInternalIP {
			was, a.Address = a.Address, "172.30.0.77"
		}
	})
}

// fullNode allocates all of a node's addresses. Its kubelet is stopped, because it would have to run that many pods.
func fullNode(w *wound) {
	var nn networkv1alpha1.NodeNetwork
	must(w.T, bed.api.Get(w.Context(), types.NamespacedName{Name: "n1"}, &nn))
	for _, cidr := range nn.Spec.PodSubnets {
		subnet, err := cidr.Prefix()
		must(w.T, err)
		if subnet.Addr().Is4() {
			stopped("n1", "kubelet")(w)
			w.cure(func() { removeBoundPods(w.T, "n1") })
			must(w.T, createBoundPods(w.Context(), "n1", int(ipam.Capacity(subnet))))
		}
	}
}
