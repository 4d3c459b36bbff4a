package topology_test

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/facts"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// Any port row is either another program's port, an error that names the port, or an assignment with the same
// content.
func FuzzParsePodPortRow(f *testing.F) {
	f.Add("pod/demo/web-0", "uid", "16", "0a:58:0a:f4:01:05 10.244.1.5 fd00::5")
	f.Add("node/worker-1", "", "2", "router")
	f.Add("pod/web-0", "uid", "16", "0a:58:0a:f4:01:05")
	f.Add("pod//", "", "", "")
	f.Add("pod/a/b/c", "uid", "99999999999999999999", "unknown")
	f.Add("", "", "-1", "0a:58:0a:f4:01:05 10.244.1.5/24")
	f.Fuzz(func(t *testing.T, owner, uid, slot, addresses string) {
		row := &nbdb.LogicalSwitchPort{Name: "the-port", Addresses: []string{addresses},
			ExternalIDs: map[string]string{unit.OwnerKey: owner},
			Options:     map[string]string{"iface-id-ver": uid, "requested-tnl-key": slot}}
		got, ok, err := topology.ParsePodPortRow(row)
		switch {
		case err != nil:
			if !strings.Contains(err.Error(), "the-port") {
				t.Errorf("the error does not name the port: %v", err)
			}
		case !ok:
			if unit.Key(owner).Kind() == topology.KindPod {
				t.Errorf("the port of %q has no pod", owner)
			}
		default:
			if string(topology.PodKey(got.Namespace, got.Name)) != owner || got.Namespace == "" || got.Name == "" ||
				strings.Contains(got.Name, "/") {
				t.Errorf("the port of %q is of pod %q in %q", owner, got.Name, got.Namespace)
			}
			if n, err := strconv.Atoi(slot); err != nil || n != got.Slot || got.UID != uid {
				t.Errorf("slot %q and UID %q are read as %d and %q", slot, uid, got.Slot, got.UID)
			}
			for _, address := range got.Addresses {
				if !strings.Contains(addresses, " ") || !address.IsValid() {
					t.Errorf("%q has the address %s", addresses, address)
				}
			}
		}
	})
}

// Any ClusterNetwork is either an error that names the field or a plan that yields node subnets.
func FuzzParseClusterNetwork(f *testing.F) {
	f.Add("10.244.0.0/16", int32(24), "10.96.0.0/16", "100.64.0.0/16")
	f.Add("fd00:10:244::/48", int32(64), "fd00:10:96::/112", "fd98::/64")
	f.Add("10.244.0.0/16", int32(0), "", "::/0")
	f.Add("10.244.0.0/16", int32(8), "10.96.0.0/16", "100.64.0.0/16")
	f.Add("10.244.0.0/16", int32(-1), "10.96.0.0/16", "255.255.255.255/32")
	f.Add("255.255.255.252/30", int32(32), "x", "fe80::/10")
	f.Add("ffff::/16", int32(128), "10.96.0.0/16", "ffff:ffff::/128")
	f.Fuzz(func(t *testing.T, cidr string, hostPrefix int32, service, join string) {
		cn := &networkv1alpha1.ClusterNetwork{}
		cn.Spec.ClusterNetwork = []networkv1alpha1.ClusterNetworkEntry{{CIDR: networkv1alpha1.CIDR(cidr), HostPrefix: hostPrefix}}
		cn.Spec.ServiceNetwork = []networkv1alpha1.CIDR{networkv1alpha1.CIDR(service)}
		cn.Spec.JoinSubnet = []networkv1alpha1.CIDR{networkv1alpha1.CIDR(join)}
		plan, err := facts.ParseClusterNetwork(cn)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "spec.") {
				t.Errorf("the error does not name the field: %v", err)
			}
			return
		}
		_ = plan.Clusters[0].Total()
		if unit := topology.NetworkUnit(plan.Network("cluster")); unit.Empty() {
			t.Error("the network wants nothing")
		}
		cutNodes(t, plan)
	})
}

// cutNodes completes the specs of three nodes. Their subnets must be in the network and disjoint.
func cutNodes(t *testing.T, plan facts.Plan) {
	t.Helper()
	var specs []networkv1alpha1.NodeNetworkSpec
	var subnets []netip.Prefix
	for range 3 {
		spec, err := facts.NodeSpec(networkv1alpha1.NodeNetworkSpec{}, plan, specs, facts.Settings{})
		if err != nil {
			return // exhausted
		}
		specs = append(specs, spec)
		for _, text := range spec.PodSubnets {
			subnet, err := text.Prefix()
			if err != nil || !plan.Clusters[0].CIDR.Contains(subnet.Addr()) || subnet.Bits() < plan.Clusters[0].CIDR.Bits() {
				t.Fatalf("subnet %q of %s (%v)", text, plan.Clusters[0].CIDR, err)
			}
			for _, other := range subnets {
				if other.Overlaps(subnet) {
					t.Fatalf("subnets %s and %s overlap", subnet, other)
				}
			}
			subnets = append(subnets, subnet)
		}
	}
}

// Any NodeNetwork is either an error that names it or facts that yield rows.
func FuzzParseNodeNetwork(f *testing.F) {
	f.Add("10.244.1.0/24", "0a:58:0a:f4:01:02", int32(1), "chassis")
	f.Add("fd00:10:244:1::/64", "0a:58:0a:f4:01:02", int32(16000), "")
	f.Add("10.244.1.5/24", "", int32(-1), "")
	f.Add("255.255.255.255/32", "02-00-5e-10-00-00-00-01", int32(0), "x")
	f.Add("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128", "0a:58:0a:f4:01:02", int32(3), "x")
	f.Fuzz(func(t *testing.T, subnet, mac string, id int32, chassis string) {
		nn := &networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}}
		nn.Spec.PodSubnets = []networkv1alpha1.CIDR{networkv1alpha1.CIDR(subnet)}
		nn.Spec.ManagementPort.MACAddress, nn.Spec.NodeID, nn.Status.Chassis = networkv1alpha1.MACAddress(mac), id, chassis
		node, err := facts.ParseNodeNetwork(nn)
		if err != nil {
			if !strings.Contains(err.Error(), "NodeNetwork worker-1") {
				t.Errorf("the error does not name the object: %v", err)
			}
			return
		}
		if len(node.ManagementMAC) != 6 {
			t.Errorf("%q is read as the MAC %s of %d bytes", mac, node.ManagementMAC, len(node.ManagementMAC))
		}
		const groups = 5 // three of balancers, and the port and the address of the only management port
		rows := 8
		if chassis != "" { // its variables
			rows++
		}
		if u := topology.NodeUnit(node); len(u.Rows) != rows || len(u.Members) != 6+groups {
			t.Errorf("the node wants %d rows and %d memberships", len(u.Rows), len(u.Members))
		}
	})
}
