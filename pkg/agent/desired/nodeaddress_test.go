package desired_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
)

// A node's addresses are the addresses of all its links, without Weft's own links, pods and services.
func TestNodeAddresses(t *testing.T) {
	var links []desired.LinkAddress
	for link, texts := range map[string]string{
		"eth0": "172.18.0.11 172.18.0.99 fd00:18::11 fe80::1", "eth1": "192.0.2.5", "lo": "127.0.0.1 ::1 203.0.113.7",
		"nodelocaldns": "169.254.20.10 10.96.0.10", "kube-ipvs0": "10.96.0.1 fd00:10:96::1", "ovn-k8s-mp0": "10.244.1.2 198.51.100.1",
		"weft-egress0": "169.254.169.6", "cni0": "10.244.7.1",
	} {
		for _, text := range strings.Fields(texts) {
			links = append(links, desired.LinkAddress{Link: link, Address: netip.MustParseAddr(text)})
		}
	}
	spec := networkv1alpha1.NodeNetworkSpec{ClusterSubnets: []networkv1alpha1.CIDR{"10.244.0.0/16"},
		ServiceSubnets: []networkv1alpha1.CIDR{"10.96.0.0/16", "fd00:10:96::/112"}}
	known := addrs("172.18.0.11", "100.100.0.1")
	for rule, want := range map[string]string{
		"": "[100.100.0.1 172.18.0.11 172.18.0.99 192.0.2.5 203.0.113.7 fd00:18::11]", "primary": "[172.18.0.11]", "10.0.0.0/8": "[]",
	} {
		if spec.Gateway.NodePortAddresses = nil; rule != "" {
			spec.Gateway.NodePortAddresses = []networkv1alpha1.NodePortAddress{networkv1alpha1.NodePortAddress(rule)}
		}
		a := desired.NewAddresses(known, links, spec, addrs("172.18.0.11"))
		all := "[100.100.0.1 169.254.20.10 172.18.0.11 172.18.0.99 192.0.2.5 203.0.113.7 fd00:18::11]"
		if have := fmt.Sprint(a.Own); have != all {
			t.Errorf("the node's addresses are %s, want %s", have, all)
		}
		if have := fmt.Sprint(a.Ports); have != want {
			t.Errorf("%q: ports at %s, want %s", rule, have, want)
		}
		if have := fmt.Sprint(a.Reported(known)); have != "[169.254.20.10 172.18.0.99 192.0.2.5 203.0.113.7 fd00:18::11]" {
			t.Errorf("reported are %s", have)
		}
		err := a.CheckPorts(spec)
		if (err != nil) != (want == "[]") || err != nil && !strings.Contains(err.Error(), "spec.gateway.nodePortAddresses [10.0.0.0/8]") {
			t.Errorf("%q: %v", rule, err)
		}
	}
}

// IPv4 node ports are also at 127.0.0.1, with the endpoints to which a loopback source can send.
func TestNodePortsAreAtTheLoopback(t *testing.T) {
	at := func(texts ...string) (found []netip.AddrPort) {
		for _, text := range texts {
			found = append(found, netip.MustParseAddrPort(text))
		}
		return found
	}
	frontends := []desired.Frontend{
		{Port: 30080, ClusterIP: netip.MustParseAddr("10.96.0.7"), Outside: at("172.18.0.12:1"), ByHost: true},
		{Port: 30081, ClusterIP: netip.MustParseAddr("10.96.0.8"), Inside: at("10.244.2.5:1", "172.18.0.11:1", "172.18.0.12:1")},
		{Port: 30082, ClusterIP: netip.MustParseAddr("10.96.0.9"), Inside: at("172.18.0.12:1")},
		{Port: 30083, ClusterIP: netip.MustParseAddr("fd00:10:96::7")},
		{Port: 80, ClusterIP: netip.MustParseAddr("10.96.0.7"), Address: netip.MustParseAddr("192.0.2.9")},
		{Port: 8080, ClusterIP: netip.MustParseAddr("10.244.1.5"), Pod: true},
	}
	var have []string
	for _, f := range desired.WithLoopback(frontends, addrs("172.18.0.11"), nets("10.244.0.0/16")) {
		if f.Address.IsLoopback() {
			have = append(have, fmt.Sprint(f.Port, " ", f.Inside, f.Outside, f.ByHost))
		}
	}
	if want := "30080 [] [] false, 30081 [10.244.2.5:1 172.18.0.11:1] [] false"; strings.Join(have, ", ") != want {
		t.Errorf("at the loopback: %s, want %s", strings.Join(have, ", "), want)
	}
}
