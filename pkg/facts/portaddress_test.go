package facts_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
)

func TestPortAddresses(t *testing.T) {
	var own, internal []netip.Addr
	for _, text := range strings.Fields("192.0.2.11 198.51.100.5 127.0.0.1 169.254.20.10 ::1 fe80::1 2001:db8::11 2001:db8:1::5") {
		own = append(own, netip.MustParseAddr(text))
	}
	for _, text := range strings.Fields("198.51.100.5 192.0.2.11 2001:db8::11") {
		internal = append(internal, netip.MustParseAddr(text))
	}
	for rule, want := range map[string]string{
		"":                             "192.0.2.11 198.51.100.5 2001:db8::11 2001:db8:1::5",
		"primary":                      "198.51.100.5 2001:db8::11",
		"192.0.2.0/24":                 "192.0.2.11",
		"0.0.0.0/0":                    "192.0.2.11 198.51.100.5",
		"192.0.2.0/24 2001:db8:1::/64": "192.0.2.11 2001:db8:1::5",
		"203.0.113.0/24":               "",
	} {
		var texts []networkv1alpha1.NodePortAddress
		for _, text := range strings.Fields(rule) {
			texts = append(texts, networkv1alpha1.NodePortAddress(text))
		}
		if have := strings.Trim(fmt.Sprint(facts.PortAddresses(own, texts, internal)), "[]"); have != want {
			t.Errorf("%q: %s, want %s", rule, have, want)
		}
	}
}

// OVN serves node ports at no excluded address, and pods reach all other addresses of their node by its management port.
func TestAddressesOfTheGateway(t *testing.T) {
	nn := &networkv1alpha1.NodeNetwork{}
	nn.Spec.ManagementPort.MACAddress, nn.Spec.JoinAddresses = "0a:58:0a:f4:01:02", []networkv1alpha1.InterfaceAddress{"100.64.0.2/16"}
	nn.Status.HostAddresses = []networkv1alpha1.IP{"192.0.2.11", "169.254.20.10", "198.51.100.5", "203.0.113.3"}
	nn.Status.Gateway = &networkv1alpha1.NodeGatewayStatus{Mode: networkv1alpha1.GatewayShared, MACAddress: "0a:00:00:00:00:01",
		Addresses: []networkv1alpha1.InterfaceAddress{"192.0.2.11/24"}}
	node := &corev1.Node{}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "198.51.100.5"}}
	for rule, want := range map[networkv1alpha1.NodePortAddress]string{
		"0.0.0.0/0": "[192.0.2.11]", "primary": "[198.51.100.5]", "203.0.113.0/24": "[]",
	} {
		nn.Spec.Gateway.NodePortAddresses = []networkv1alpha1.NodePortAddress{rule}
		g, err := facts.ParseGateway(nn, node)
		if err != nil {
			t.Fatal(err)
		}
		if have := fmt.Sprint(g.ServedAt()); have != want || fmt.Sprint(facts.NodePortAddresses(nn, node)) != want {
			t.Errorf("%s: served at %s, want %s", rule, have, want)
		}
		if have := fmt.Sprint(g.OtherAddresses); have != "[169.254.20.10 203.0.113.3]" {
			t.Errorf("other addresses %s", have)
		}
	}
}
