package ipsec

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
)

var own, far = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")

func TestPeersOf(t *testing.T) {
	for name, c := range map[string]struct {
		ids  map[string]string
		want []Peer
	}{
		"a tunnel":             {map[string]string{tunnelKey: "n2@192.0.2.2"}, []Peer{{"n2", far, own}}},
		"an own address":       {map[string]string{tunnelKey: "n2@192.0.2.2%192.0.2.9"}, []Peer{{"n2", far, netip.MustParseAddr("192.0.2.9")}}},
		"IPv6":                 {map[string]string{tunnelKey: "n2@2001:db8::2%"}, []Peer{{"n2", netip.MustParseAddr("2001:db8::2"), own}}},
		"a name with an @":     {map[string]string{tunnelKey: "a@b@192.0.2.2"}, []Peer{{"a@b", far, own}}},
		"no tunnel":            {map[string]string{"iface-id": "demo_web"}, nil},
		"an unreadable tunnel": {map[string]string{tunnelKey: "n2@nowhere"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			port := &vswitchdb.Port{ExternalIDs: c.ids}
			if have := PeersOf([]*vswitchdb.Port{port, port}, own); !slices.Equal(have, c.want) {
				t.Errorf("%+v, want %+v", have, c.want)
			}
		})
	}
}

// Only nodes that require encryption wait for keys before they send, and of two nodes one begins.
func TestConnections(t *testing.T) {
	for _, c := range []struct {
		protection networkv1alpha1.TunnelProtection
		action     string
	}{{networkv1alpha1.ProtectionAccepted, "none"}, {networkv1alpha1.ProtectionRequired, "trap"}} {
		have := newConnection("n1", Peer{"n2", far, own}, c.protection)
		out, in := have.Children["out"], have.Children["in"]
		for _, child := range []child{out, in} {
			if child.StartAction != c.action || child.DPDAction != c.action || child.CloseAction != c.action {
				t.Errorf("%s: %+v, want %s", c.protection, child, c.action)
			}
		}
		if !slices.Equal(out.RemoteTS, []string{"192.0.2.2/32[17/6081]"}) || !slices.Equal(in.LocalTS, []string{"192.0.2.1/32[17/6081]"}) ||
			!slices.Equal(out.LocalTS, []string{"192.0.2.1/32[17]"}) || !slices.Equal(in.RemoteTS, []string{"192.0.2.2/32[17]"}) {
			t.Errorf("selectors %+v, %+v", out, in)
		}
	}
	if (Peer{"n2", far, own}).begins() == (Peer{"n1", own, far}).begins() {
		t.Error("both nodes begin, or none")
	}
}

func TestNames(t *testing.T) {
	var peers []Peer
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		peers = append(peers, Peer{name, far, own})
	}
	if have := Names(peers[:1]); have != "a (192.0.2.2)" {
		t.Error(have)
	}
	if have := Names(peers); !strings.HasSuffix(have, "e (192.0.2.2), 2 more") {
		t.Error(have)
	}
}
