package desired_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
)

// linkAddress reads "eth1 192.0.2.1".
func linkAddress(text string) (a desired.LinkAddress) {
	link, address, _ := strings.Cut(text, " ")
	return desired.LinkAddress{Link: link, Address: netip.MustParseAddr(address), MTU: 1500}
}

func TestTunnelAddresses(t *testing.T) {
	have := []desired.LinkAddress{
		linkAddress("eth0 172.18.0.11"), linkAddress("eth2 198.18.2.12"), linkAddress("eth1 198.18.1.11"),
		linkAddress("eth2 198.18.2.11"), linkAddress("eth1 fd00:1::11"),
	}
	for name, c := range map[string]struct{ networks, inUse, want string }{
		"one network":               {networks: "198.18.1.0/24", want: "eth1 198.18.1.11"},
		"in the order of networks":  {networks: "198.18.2.0/24 198.18.1.0/24", want: "eth2 198.18.2.11, eth1 198.18.1.11"},
		"an address in use stays":   {networks: "198.18.2.0/24", inUse: "198.18.2.12", want: "eth2 198.18.2.12"},
		"a former address is gone":  {networks: "198.18.2.0/24", inUse: "198.18.2.99", want: "eth2 198.18.2.11"},
		"a network of other nodes":  {networks: "198.18.3.0/24 198.18.1.0/24", want: "eth1 198.18.1.11"},
		"networks overlap":          {networks: "198.18.2.0/24 198.18.2.0/25", want: "eth2 198.18.2.11, eth2 198.18.2.12"},
		"IPv6":                      {networks: "fd00:1::/64", want: "eth1 fd00:1::11"},
		"no address in any network": {networks: "198.18.3.0/24"},
	} {
		t.Run(name, func(t *testing.T) {
			var networks []netip.Prefix
			for text := range strings.FieldsSeq(c.networks) {
				networks = append(networks, netip.MustParsePrefix(text))
			}
			var inUse []netip.Addr
			for text := range strings.FieldsSeq(c.inUse) {
				inUse = append(inUse, netip.MustParseAddr(text))
			}
			var found []string
			for _, a := range desired.TunnelAddresses(networks, have, inUse) {
				found = append(found, a.Link+" "+a.Address.String())
			}
			if text := strings.Join(found, ", "); text != c.want {
				t.Errorf("tunnels from %q, want %q", text, c.want)
			}
		})
	}
}

// Pods are spread over the addresses, each pod keeps its own, and a node with one address names none.
func TestTunnelOf(t *testing.T) {
	addresses := []netip.Addr{netip.MustParseAddr("198.18.1.11"), netip.MustParseAddr("198.18.2.11"), netip.MustParseAddr("198.18.3.11")}
	count := map[string]int{}
	for i := range 300 {
		id := fmt.Sprintf("demo_web-%d", i)
		tunnel := desired.TunnelOf(id, addresses)
		if again := desired.TunnelOf(id, addresses); again != tunnel {
			t.Errorf("%s has %s and %s", id, tunnel, again)
		}
		count[tunnel]++
	}
	for _, a := range addresses {
		if n := count[a.String()]; n < 60 {
			t.Errorf("%s has %d of 300 pods", a, n)
		}
	}
	if got := desired.TunnelOf("demo_web", addresses[:1]); got != "" {
		t.Errorf("the only address is named: %q", got)
	}
}

// Both settings exist only with several addresses, and the uninstallation removes both.
func TestRegistrationOfSeveralTunnels(t *testing.T) {
	c := chassis()
	if got := externalIDs(desired.Registration(c))["ovn-encap-ip-default"]; got != "" {
		t.Errorf("a node with one address has the default %q", got)
	}
	c.Tunnels = append(c.Tunnels, netip.MustParseAddr("198.18.1.11"))
	have := externalIDs(desired.Registration(c))
	if have["ovn-encap-ip"] != "172.18.0.11,198.18.1.11" || have["ovn-encap-ip-default"] != "172.18.0.11" {
		t.Errorf("settings %v", have)
	}
	left := externalIDs(desired.Registered(have))
	if left["ovn-encap-ip"] != have["ovn-encap-ip"] || left["ovn-encap-ip-default"] != have["ovn-encap-ip-default"] {
		t.Errorf("the uninstallation removes %v of %v", left, have)
	}
}

func TestAttachmentNamesItsTunnel(t *testing.T) {
	tunnels := []netip.Addr{netip.MustParseAddr("198.18.1.11"), netip.MustParseAddr("198.18.2.11")}
	a := attachment()
	iface := rowsOf[vswitchdb.Interface](desired.AttachmentUnit(a, "b", tunnels))[0]
	if got := iface.ExternalIDs["encap-ip"]; !slices.ContainsFunc(tunnels, func(t netip.Addr) bool { return t.String() == got }) {
		t.Errorf("encap-ip is %q", got)
	}
	if got, ok := rowsOf[vswitchdb.Interface](desired.AttachmentUnit(a, "b", tunnels[:1]))[0].ExternalIDs["encap-ip"]; ok {
		t.Errorf("encap-ip of a node with one address is %q", got)
	}
}
