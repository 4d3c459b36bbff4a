package histories

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
)

// checkChange checks what a change of the networks leaves: every network of the spec is in force, a removed network
// leaves only while it is in use, and a leaving subnet has a pod or is the node's last.
func (o *oracle) checkChange() {
	if len(o.nodes) > 0 && (o.plan.Pending || len(o.plan.Clusters) != len(o.asked.Clusters)) {
		o.complain("the networks in force are %+v, spec has %+v", o.cn.Status.Networks, o.asked.Clusters)
	}
	all := o.subnets("")
	for _, n := range o.plan.Leaving {
		inside := func(p netip.Prefix) bool { return n.Overlaps(p) }
		if !slices.ContainsFunc(all, inside) && !slices.ContainsFunc(o.plan.Floating, inside) {
			o.complain("network %s is leaving, and nothing uses it", n)
		}
	}
	for name, node := range o.nodesOf {
		for _, s := range node.Leaving {
			if _, used := o.countIn(s); used == 0 && o.lostIn(name, s) == 0 && !o.isLast(node, s, all) {
				o.complain("node %s has the leaving subnet %s, in which no pod has an address", name, s)
			}
		}
	}
	o.checkOutdated()
}

// isLast reports whether all subnets of a node in the family of a leaving subnet are leaving, and no network of that family has another
// left. Such a node keeps the subnet. all are the subnets of all nodes.
func (o *oracle) isLast(node facts.Node, leaving netip.Prefix, all []netip.Prefix) bool {
	is4 := leaving.Addr().Is4()
	gives := func(s netip.Prefix) bool { return s.Addr().Is4() == is4 && !slices.Contains(node.Leaving, s) }
	return !slices.ContainsFunc(node.Subnets, gives) && o.plan.Exhausted(slices.Concat(all, o.plan.Floating))[is4] != nil
}

// checkFull checks that a full node has got a subnet of each network that has one left. A NodeNetwork has the condition
// SubnetsFull exactly while it is in a zone and a pod waits for an address. without are the pods without a port on nodes whose
// rows the database has.
func (o *oracle) checkFull(without []*corev1.Pod) {
	full := map[string]bool{}
	for _, pod := range without {
		node, ok := o.nodesOf[pod.Spec.NodeName]
		if ok && o.mayHavePort(pod) && !o.hasRoom(node) {
			full[node.Name] = true
			o.checkEnlarged(node, o.subnets(""))
		}
	}
	for name, nn := range o.networks {
		c := meta.FindStatusCondition(nn.Status.Conditions, networkv1alpha1.ConditionSubnetsFull)
		want := full[name] && !o.decides()
		if o.elsewhere(name) || want == (c != nil) {
			continue
		}
		o.complain("NodeNetwork %s of zone %q has the condition %+v, although a pod waiting for an address is %t", name, o.zone, c, full[name])
	}
}

// checkEnlarged checks that a full node has no network left that could give it a subnet.
func (o *oracle) checkEnlarged(node facts.Node, all []netip.Prefix) {
	if len(node.Subnets) >= 4 {
		return
	}
	for _, n := range o.plan.Clusters {
		has := slices.ContainsFunc(node.Subnets, n.CIDR.Overlaps)
		is4 := n.CIDR.Addr().Is4()
		if _, err := n.NextSubnet(slices.Concat(all, o.plan.Floating)); !has && err == nil && o.isFull(node, is4) {
			o.complain("node %s is full with %v, and got no subnet of %s", node.Name, node.Subnets, n.CIDR)
		}
	}
}

// isFull reports whether no subnet of a family that gives addresses has a free one.
func (o *oracle) isFull(node facts.Node, is4 bool) bool {
	node.Subnets = slices.DeleteFunc(slices.Clone(node.Subnets), func(s netip.Prefix) bool { return s.Addr().Is4() != is4 })
	return len(node.Subnets) > 0 && !o.hasRoom(node)
}

// lostIn counts the ports in a subnet of pods that the oracle does not judge.
func (o *oracle) lostIn(node string, subnet netip.Prefix) (n int) {
	for i := range o.pods {
		if port, ok := findPort(o.rows, &o.pods[i]); ok && o.pods[i].Spec.NodeName == node &&
			slices.ContainsFunc(port.addresses, subnet.Contains) {
			n++
		}
	}
	return n
}

// checkOutdated checks that the status counts the pods whose addresses differ from a new pod's.
func (o *oracle) checkOutdated() {
	want := 0
	for i := range o.pods {
		pod := &o.pods[i]
		node, ok := o.nodesOf[pod.Spec.NodeName]
		addresses := o.heldBy(pod)
		if !ok || len(addresses) == 0 || !hasOwnInterface(pod) {
			continue
		}
		giving := slices.DeleteFunc(slices.Clone(node.Subnets), func(s netip.Prefix) bool { return slices.Contains(node.Leaving, s) })
		lacks := slices.ContainsFunc(families(giving), func(is4 bool) bool { return !hasFamily(addresses, is4) })
		leaves := slices.ContainsFunc(node.Leaving, func(s netip.Prefix) bool { return slices.ContainsFunc(addresses, s.Contains) })
		if lacks || leaves {
			want++
		}
	}
	have := o.cn.Status.OutdatedPods
	if have == nil {
		have = &networkv1alpha1.OutdatedPods{}
	}
	if int(have.Total) != want {
		o.complain("ClusterNetwork counts %d outdated pods, want %d: %+v", have.Total, want, have.First)
	}
}
