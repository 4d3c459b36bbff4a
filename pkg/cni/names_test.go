package cni

import (
	"net"
	"testing"
)

func TestHostNameIsStableShortAndUnique(t *testing.T) {
	name := HostName("0123456789abcdef", "eth0")
	// A new build must find the links of the previous build.
	if name != "weft60373cf902" {
		t.Errorf("name %q", name)
	}
	for _, other := range []string{HostName("0123456789abcdef", "eth1"), HostName("fedcba", "eth0")} {
		if other == name {
			t.Errorf("two owners have the name %q", name)
		}
	}
	if !isHostName(name) {
		t.Errorf("%q is not recognised", name)
	}
	for _, foreign := range []string{"eth0", "weft", "weft-mp0", "weft01234567890", "weftxyzxyzxyzx"} {
		if isHostName(foreign) {
			t.Errorf("%q is recognised as Weft's", foreign)
		}
	}
}

func TestOwnerOfAlias(t *testing.T) {
	for alias, want := range map[string][2]string{
		aliasOf("abc", "eth0"): {"abc", "eth0"},
		"weft:abc":             {},
		"":                     {},
		"calico:abc/eth0":      {},
	} {
		containerID, ifName, ok := ownerOf(alias)
		if ok != (want[0] != "") || ok && [2]string{containerID, ifName} != want {
			t.Errorf("owner of %q: %q, %q, %v", alias, containerID, ifName, ok)
		}
	}
}

func TestHostMACIsLocalUnicast(t *testing.T) {
	for _, containerID := range []string{"a", "b", "c", "d", "e", "f"} {
		if mac := hostMAC(containerID, "eth0"); mac[0]&0x03 != 0x02 {
			t.Errorf("MAC of %s is %s", containerID, mac)
		}
	}
}

func TestLinkLocalMatchesTheKernel(t *testing.T) {
	mac := net.HardwareAddr{0x0a, 0x58, 0x0a, 0xf4, 0x00, 0x05}
	if got := linkLocal(mac).String(); got != "fe80::858:aff:fef4:5/64" {
		t.Errorf("link-local address %s", got)
	}
}
