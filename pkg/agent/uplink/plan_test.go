package uplink

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// model is a host whose state is what the last steps established.
type model map[string]string

func (m model) do(steps ...Step) {
	for _, step := range steps {
		switch s := step.(type) {
		case Rows:
			m["rows "+s.Bridge] = fmt.Sprint(s.Present, s.Port)
			if !s.Present { // the bridge's link is removed with its configuration
				delete(m, "rows "+s.Bridge)
				delete(m, "carries "+s.Bridge)
				delete(m, "settings "+s.Bridge)
			}
		case Features:
			m["features "+s.Link] = fmt.Sprint(s.On)
		case Guarded:
			if m["guard "+s.Link] = "on"; !s.On {
				delete(m, "guard "+s.Link)
			}
		case Settings:
			m["settings "+s.Link] = fmt.Sprint(s.AddrGenMode, s.Sysctls, s.Up, s.Down)
		case Promiscuous:
			m["promiscuous "+s.Link] = fmt.Sprint(s.On)
		case Carries:
			m["carries "+s.Link] = fmt.Sprint(s.Layer3)
		case RuleCopies:
			if m["rules "+s.Link] = fmt.Sprint(s.Rules); !s.Present {
				delete(m, "rules "+s.Link)
			}
		}
	}
}

func snapshotOfTest() Snapshot {
	return Snapshot{
		Link: nic, MAC: nicMAC.String(), MTU: mtu, Sysctls: map[string]string{disableIPv6: "0", "ipv6/accept_ra": "1"},
		Features: map[string]bool{"rx-gro": true}, Layer3: Layer3{Addresses: []Message{{Text: "192.0.2.10/24"}}},
		Rules: []Message{{Text: "rule 1"}},
	}
}

// Undoing must restore the host's original state from any point of a move and from any point of an earlier undoing.
func TestUndoBringsBackTheHostFromAnyPoint(t *testing.T) {
	s := snapshotOfTest()
	for _, datapath := range []networkv1alpha1.DatapathType{networkv1alpha1.DatapathNetdev, networkv1alpha1.DatapathSystem} {
		s.Down = datapath == networkv1alpha1.DatapathSystem
		for _, uplink := range []networkv1alpha1.UplinkType{networkv1alpha1.UplinkBridge, networkv1alpha1.UplinkInterface} {
			to := Target{Bridge: bridge, Datapath: datapath, Uplink: uplink}
			begin := model{}
			begin.do(Settings{Link: nic, AddrGenMode: s.AddrGenMode, Sysctls: s.Sysctls, Up: !s.Down, Down: s.Down},
				Carries{nic, s.Layer3}, Promiscuous{nic, s.Promiscuous}, Features{nic, s.Features})
			move, undo := Move(s, to), Undo(s, to, true)
			for k := range len(move) + 1 {
				for j := range len(undo) + 1 {
					host := maps.Clone(begin)
					host.do(move[:k]...)
					host.do(undo[:j]...)
					host.do(undo...)
					if diff := cmp.Diff(begin, host); diff != "" {
						t.Fatalf("%v, after %d steps of the move and %d of undoing (-want +got):\n%s", to, k, j, diff)
					}
				}
			}
		}
	}
}

func TestAMoveLeavesNothingOnTheLink(t *testing.T) {
	s := snapshotOfTest()
	for _, uplink := range []networkv1alpha1.UplinkType{networkv1alpha1.UplinkBridge, networkv1alpha1.UplinkInterface} {
		host := model{}
		host.do(Move(s, Target{Bridge: bridge, Datapath: networkv1alpha1.DatapathNetdev, Uplink: uplink})...)
		if got := host["carries "+nic]; got != fmt.Sprint(Layer3{}) {
			t.Errorf("%s: the link carries %s", uplink, got)
		}
		if host["guard "+nic] != "on" {
			t.Errorf("%s: on the userspace datapath the kernel still sees the link's frames", uplink)
		}
		want := ""
		if uplink == networkv1alpha1.UplinkBridge {
			want = fmt.Sprint(s.Layer3)
		}
		if got := host["carries "+bridge]; got != want {
			t.Errorf("%s: the bridge carries %q; want %q", uplink, got, want)
		}
	}
}

func TestAfterARebootOnlyTheRowsAreUndone(t *testing.T) {
	target := Target{Bridge: bridge, Datapath: networkv1alpha1.DatapathSystem, Uplink: networkv1alpha1.UplinkBridge}
	for _, step := range Undo(snapshotOfTest(), target, false) {
		switch step.(type) {
		case Rows, RuleCopies:
		default:
			t.Errorf("%s changes a link that the host has configured again", step)
		}
	}
}

func TestBridgeNamesFitAndDiffer(t *testing.T) {
	names := map[string]string{} // bridge -> link
	for _, link := range []string{"eth0", "enp0s31f6", "enp175s0f0np0", "enp175s0f0np01", "enp175s0f0np02", "enp175s0f0np012"} {
		name := BridgeName(link)
		if len(name) > 15 || names[name] != "" {
			t.Errorf("the bridge of %s is %s, with %d letters; that name belongs to %q", link, name, len(name), names[name])
		}
		names[name] = link
	}
	if names["breth0"] != "eth0" || names["brenp175s0f0np0"] != "enp175s0f0np0" {
		t.Errorf("short names are not kept: %v", names)
	}
}
