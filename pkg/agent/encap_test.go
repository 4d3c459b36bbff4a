package agent_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ovndb"
)

// tunnelFrom sets spec.encapsulation.networks.
func (n *node) tunnelFrom(networks ...networkv1alpha1.CIDR) {
	n.Helper()
	nn := &networkv1alpha1.NodeNetwork{}
	n.must(api.Get(n.Context(), types.NamespacedName{Name: nodeName}, nn))
	before := nn.DeepCopy()
	nn.Spec.Encapsulation.Networks = networks
	n.must(api.Patch(n.Context(), nn, client.MergeFrom(before)))
}

// tunnels waits until ovn-controller and the status have the addresses, and each pod's interface names one of them if
// there are several.
func (n *node) tunnels(addresses ...string) {
	n.Helper()
	n.until("tunnels", func() error {
		ovs, ok := ovndb.Only[vswitchdb.OpenvSwitch](n.rows)
		if !ok {
			return errors.New("no row of Open vSwitch")
		}
		wantDefault := ""
		if len(addresses) > 1 {
			wantDefault = addresses[0]
		}
		tunnels, byDefault := ovs.ExternalIDs["ovn-encap-ip"], ovs.ExternalIDs["ovn-encap-ip-default"]
		if tunnels != strings.Join(addresses, ",") || byDefault != wantDefault {
			return fmt.Errorf("ovn-controller tunnels from %q, by default %q; want %v", tunnels, byDefault, addresses)
		}
		s := n.status()
		have := []string{string(s.EncapIP)}
		for _, ip := range s.FurtherEncapIPs {
			have = append(have, string(ip))
		}
		if !slices.Equal(have, addresses) {
			return fmt.Errorf("the status has %v, want %v", have, addresses)
		}
		for id, i := range n.interfaces() {
			tunnel := i.ExternalIDs["encap-ip"] // without several addresses, ovn-controller ignores it
			if len(addresses) > 1 && !slices.Contains(addresses, tunnel) {
				return fmt.Errorf("interface %s names the tunnel %q of %v", id, tunnel, addresses)
			}
		}
		return nil
	})
}

// TestTunnelNetworks moves the tunnels of a node with pods to other networks and back. Pods keep working, and a restart
// writes nothing.
func TestTunnelNetworks(t *testing.T) {
	n := readyNode(t)
	web := n.newPod("web", 5)
	n.givePort(web)
	n.add(web)
	n.tunnels(encapIP)

	n.tunnelFrom("198.18.1.0/24", "198.18.2.0/24")
	n.until("a condition", func() error {
		var nn networkv1alpha1.NodeNetwork
		n.must(api.Get(n.Context(), types.NamespacedName{Name: nodeName}, &nn))
		for _, c := range nn.Status.Conditions {
			if c.Type == networkv1alpha1.ConditionOVSReady && c.Status == metav1.ConditionFalse &&
				strings.Contains(c.Message, "no link of this host has an address in spec.encapsulation.networks [198.18.1.0/24 198.18.2.0/24]") {
				return nil
			}
		}
		return fmt.Errorf("conditions are %+v", nn.Status.Conditions)
	})
	n.tunnels(encapIP) // they stay until the node has an address

	link, err := netlink.LinkByName("br-ex")
	n.must(err)
	give := func(text string) *netlink.Addr {
		address, err := netlink.ParseAddr(text)
		n.must(err)
		n.must(netlink.AddrAdd(link, address))
		return address
	}
	give("198.18.2.11/24")
	n.tunnels("198.18.2.11")
	first := give("198.18.1.11/24")
	n.tunnels("198.18.1.11", "198.18.2.11")
	n.awaitCondition(networkv1alpha1.ConditionReady, metav1.ConditionTrue)
	n.wantTraffic(web)
	late := n.newPod("late", 6)
	n.givePort(late)
	n.add(late)
	n.tunnels("198.18.1.11", "198.18.2.11")

	n.stopAgent()
	n.counter.mu.Lock()
	clear(n.counter.writes)
	n.counter.mu.Unlock()
	n.startAgent()
	n.awaitCondition(networkv1alpha1.ConditionReady, metav1.ConditionTrue)
	n.awaitPods(web, late)
	if writes := n.counter.count("Open_vSwitch"); writes != 0 {
		t.Errorf("the restart wrote %d transactions", writes)
	}

	n.must(netlink.AddrDel(link, first))
	n.tunnels("198.18.2.11")
	n.tunnelFrom()
	n.tunnels(encapIP)
	n.wantTraffic(web)
}
