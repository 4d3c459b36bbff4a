package cni

import (
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
)

func TestSetMTUChangesBothEnds(t *testing.T) {
	needRoot(t)
	want := dualStack(podNS(t))
	mustAttach(t, want)
	for _, mtu := range []int{1300, 1300, 1442} {
		want.MTU = mtu
		if err := SetMTU(want); err != nil {
			t.Fatal(err)
		}
		if err := Verify(want); err != nil {
			t.Error(err)
		}
		host, err := netlink.LinkByName(HostName(want.ContainerID, want.IfName))
		if err != nil || host.Attrs().MTU != mtu {
			t.Errorf("the host's end has %v, want MTU %d: %v", host, mtu, err)
		}
	}
}

// TestSetMTUKeepsIPv6 sets an MTU below 1280 bytes, with which the kernel would remove the IPv6 addresses.
func TestSetMTUKeepsIPv6(t *testing.T) {
	needRoot(t)
	want := dualStack(podNS(t))
	mustAttach(t, want)
	small := want
	small.MTU = 1279
	if err := SetMTU(small); err == nil || !strings.Contains(err.Error(), "MTU 1279") {
		t.Errorf("error: %v", err)
	}
	if err := Verify(want); err != nil {
		t.Error(err)
	}
}

func TestSetMTUOfAMissingInterface(t *testing.T) {
	needRoot(t)
	want := web(podNS(t))
	if err := SetMTU(want); err != nil {
		t.Errorf("no link: %v", err)
	}
	mustAttach(t, want)
	want.MTU, want.NetNS = 1300, "/run/netns/that-is-gone"
	if err := SetMTU(want); err != nil {
		t.Errorf("no namespace: %v", err)
	}
}
