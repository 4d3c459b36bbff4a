package desired_test

import (
	"net/netip"
	"strings"
	"testing"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/ovn/sbdb"
)

// A host port without an address is also served at 127.0.0.1. A host port at 127.0.0.1 is served only there. Nothing at
// 127.0.0.1 is reachable from outside, in any mode.
func TestHostPortsAreAtTheLoopbackToo(t *testing.T) {
	ports := desired.HostPorts([]*sbdb.PortBinding{{
		MAC:         []string{"0a:58:0a:f4:01:05 10.244.1.5 fd00::5"},
		ExternalIDs: map[string]string{ovnexpr.HostPortsKey: "tcp/:8088/80,tcp/127.0.0.1:9099/90"},
	}}, nil)
	var at []string
	for _, f := range ports {
		at = append(at, f.Address.String()+" "+netip.AddrPortFrom(f.ClusterIP, f.ClusterPort).String())
	}
	want := "invalid IP 10.244.1.5:80, 127.0.0.1 10.244.1.5:80, 127.0.0.1 10.244.1.5:90, invalid IP [fd00::5]:80"
	if got := strings.Join(at, ", "); got != want {
		t.Errorf("host ports are %s, want %s", got, want)
	}
	bridge := desired.ExternalBridge{
		Physical: 1, Patch: 2, MAC: "02:00:00:18:00:11", Addresses: addrs("172.18.0.11", "fd00:18::11"),
		Ports: addrs("172.18.0.11", "fd00:18::11"), Frontends: ports,
	}
	for _, f := range bridge.Flows() {
		if strings.Contains(f.Match, "127.0.0.1") {
			t.Errorf("the bridge has %+v", f)
		}
	}
	for _, mode := range []networkv1alpha1.GatewayMode{networkv1alpha1.GatewayShared, networkv1alpha1.GatewayLocal} {
		rules := desired.HostRules{Mode: mode, Addresses: nodeWith(bridge.Addresses...), Frontends: ports}
		if !rules.Loopback() {
			t.Errorf("%s: Loopback is false", mode)
		}
		for _, set := range rules.Table().Sets {
			for element := range set.Elements {
				if strings.HasPrefix(element, "127.0.0.1") && set.Name != "cluster4" {
					t.Errorf("%s: %s has %s", mode, set.Name, element)
				}
			}
			if set.Name == "cluster4" && set.Elements["127.0.0.1 . tcp . 9099"] != "10.244.1.5 . 90" {
				t.Errorf("%s: the host's translations are %v", mode, set.Elements)
			}
		}
	}
}

// The agent does not depend on the operator's refusal of host ports at addresses that are not the node's.
func TestHostPortsAreAtAddressesOfTheNode(t *testing.T) {
	own := addrs("172.18.0.11", "10.9.0.1", "fd00:18::11")
	ports := desired.HostPorts([]*sbdb.PortBinding{{
		MAC: []string{"0a:58:0a:f4:01:05 10.244.1.5 fd00::5"},
		ExternalIDs: map[string]string{ovnexpr.HostPortsKey: "tcp/10.9.0.1:80/80,tcp/10.96.0.1:443/80,tcp/172.18.0.12:80/80," +
			"tcp/[fd00:18::11]:80/80,tcp/[fd00:10:96::1]:443/80"},
	}}, own)
	var at []string
	for _, f := range ports {
		at = append(at, netip.AddrPortFrom(f.Address, f.Port).String())
	}
	if got, want := strings.Join(at, ", "), "10.9.0.1:80, [fd00:18::11]:80"; got != want {
		t.Errorf("host ports are at %s, want %s", got, want)
	}
}
