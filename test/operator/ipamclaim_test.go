package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	ipamclaimsv1alpha1 "github.com/k8snetworkplumbingwg/ipamclaims/pkg/crd/ipamclaims/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
)

// claim creates an IPAMClaim for net1 on a network.
func (w *world) claim(name, network string) *ipamclaimsv1alpha1.IPAMClaim {
	w.Helper()
	claim := &ipamclaimsv1alpha1.IPAMClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: ipamclaimsv1alpha1.IPAMClaimSpec{Network: network, Interface: "net1"}}
	w.must(api.Create(w.Context(), claim))
	w.Cleanup(func() { w.must(client.IgnoreNotFound(api.Delete(context.Background(), claim))) })
	return claim
}

// keeps waits until a claim's status has the addresses and the pod.
func (w *world) keeps(claim *ipamclaimsv1alpha1.IPAMClaim, pod string, ips ...string) {
	w.Helper()
	w.until(func() error {
		var have ipamclaimsv1alpha1.IPAMClaim
		if err := view.Get(w.Context(), keyOf(claim), &have); err != nil {
			return err
		}
		owner := ""
		if have.Status.OwnerPod != nil {
			owner = have.Status.OwnerPod.Name
		}
		if !slices.Equal(have.Status.IPs, ips) || owner != pod || !meta.IsStatusConditionTrue(have.Status.Conditions, "IPsAllocated") {
			return fmt.Errorf("the claim has status %+v, owner %q, want %v of %q", have.Status, owner, ips, pod)
		}
		return nil
	})
}

const byClaim = `[{"name":"blue","ipam-claim-reference":"vm"}]`

// The pods that name an IPAMClaim have its addresses one after the other, over restarts, and nobody else has them.
func TestIPAMClaims(t *testing.T) {
	w := newWorld(t)
	o := w.start()
	w.network(dualStack()...)
	w.join("n1")
	w.join("n2")
	w.podNetwork("blue", networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLayer2,
		Subnets: subnets("10.100.0.0/29", "fd00:100::/64")})
	const addresses = "10.100.0.1 fd00:100::1"

	one := w.requesting("one", "n1", byClaim)
	w.says(w.event("one", "FailedNetworkAllocation"), "default/blue@net1", "IPAMClaim default/vm", "does not exist")
	claim := w.claim("vm", "blue") // its creation wakes the pod
	w.wantPorts(map[string]string{"blue_default_one_net1": addresses})
	w.keeps(claim, "one", "10.100.0.1/29", "fd00:100::1/64")

	two := w.requesting("two", "n2", byClaim)
	w.says(w.event("two", "FailedNetworkAllocation"), "IPAMClaim default/vm", "in use by pod default/one@net1", "pod default/two")
	mac := w.networkMAC("blue_default_one_net1")
	w.delete(one)
	w.wantPorts(map[string]string{"blue_default_two_net1": addresses})
	w.keeps(claim, "two", "10.100.0.1/29", "fd00:100::1/64")
	if now := w.networkMAC("blue_default_two_net1"); now != mac {
		t.Errorf("the MAC is %s, was %s", now, mac)
	}

	t.Run("a restart writes nothing", func(t *testing.T) {
		o.settle()
		o.stop()
		o = w.start()
		w.port(w.create("n1", "extra")[0]) // the operator works
		o.settle()
		if o.transactions() != 1 || len(o.writes("/ipamclaims")) > 0 {
			t.Errorf("a restart wrote %d transactions besides the new pod's, and %v", o.transactions()-1, o.writes(""))
		}
	})
	t.Run("kept without a pod, over a restart", func(t *testing.T) {
		w.delete(two)
		w.wantPorts(map[string]string{})
		w.keeps(claim, "", "10.100.0.1/29", "fd00:100::1/64")
		o.stop()
		o = w.start()
		w.requesting("other", "n1", "blue")
		w.wantPorts(map[string]string{"blue_default_other_net1": "10.100.0.2 fd00:100::2"})
	})
	t.Run("free after the claim, when no pod has them", func(t *testing.T) {
		three := w.requesting("three", "n1", byClaim)
		w.keeps(claim, "three", "10.100.0.1/29", "fd00:100::1/64")
		w.delete(claim)
		thief := w.requesting("thief", "n1", `[{"name":"blue","ips":["10.100.0.1"]}]`)
		w.says(w.event("thief", "FailedNetworkAllocation"), "10.100.0.1", "in use")
		if ports := w.networkPorts(); ports["blue_default_three_net1"] != addresses {
			t.Errorf("the end of the claim took its pod's addresses: %v", ports)
		}
		w.delete(three)
		w.until(func() error {
			if have := w.networkPorts()["blue_default_thief_net1"]; !strings.HasPrefix(have, "10.100.0.1 ") {
				return fmt.Errorf("the thief has %q", have)
			}
			return nil
		})
		w.delete(thief)
	})
}

// networkMAC returns the MAC of a port on a Network.
func (w *world) networkMAC(port string) (mac string) {
	for _, row := range ovndb.List(w.rows, func(p *nbdb.LogicalSwitchPort) bool { return p.Name == port }) {
		mac, _, _ = strings.Cut(row.Addresses[0], " ")
	}
	return mac
}

// A claim that a request cannot have is named, with the reason.
func TestIPAMClaimsThatCannotBeHad(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.network(dualStack()...)
	w.join("n1")
	w.podNetwork("blue", networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLayer2, Subnets: subnets("10.100.0.0/24")})
	w.podNetwork("routed", networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLayer3,
		Subnets: []networkv1alpha1.NetworkSubnet{{CIDR: "10.101.0.0/16", HostPrefix: 24}}})
	w.podNetwork("bare", networkv1alpha1.NetworkSpec{Topology: networkv1alpha1.TopologyLayer2, IPAM: networkv1alpha1.IPAMNone})
	w.claim("green", "green")
	w.claim("vm", "blue")
	for i, c := range []struct{ annotation, want string }{
		{`[{"name":"blue","ipam-claim-reference":"green"}]`, `IPAMClaim default/green is for network "green", not for "blue"`},
		{`[{"name":"blue","interface":"data","ipam-claim-reference":"vm"}]`, `is for interface "net1", not for "data"`},
		{`[{"name":"routed","ipam-claim-reference":"vm"}]`, "Layer3, follow the pod's node"},
		{`[{"name":"bare","ipam-claim-reference":"vm"}]`, "Network bare has no addresses"},
	} {
		name := fmt.Sprint("refused", i)
		w.requesting(name, "n1", c.annotation)
		w.event(name, "FailedNetworkAllocation", c.want) // an earlier one says that the claim does not exist, if it came after the pod
	}
	w.wantPorts(map[string]string{})
	w.requesting("asking", "n1", `[{"name":"blue","ips":["10.100.0.77"],"ipam-claim-reference":"vm"}]`)
	w.wantPorts(map[string]string{"blue_default_asking_net1": "10.100.0.77"})
}
