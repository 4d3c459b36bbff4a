package gateway

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/agent/desired"
)

// Entries are listed at the start, after a pod's EgressIP or what the node carries has changed, and once after each gap. A new pod lists
// nothing.
func TestSourcesAreListedSeveralTimes(t *testing.T) {
	pod, address := netip.MustParseAddr("10.244.0.9"), netip.MustParseAddr("172.18.0.100")
	now := time.Now()
	var s sources
	lists := func(state desired.Sources) (count int) {
		for range 100 {
			if s.note(state, now) {
				count++
				s.listed(now)
			}
			now = now.Add(500 * time.Millisecond)
		}
		return count
	}
	want := 1 + len(staleGaps())
	state := desired.Sources{Pods: map[netip.Addr]string{pod: "a"}, Owners: map[netip.Addr][]string{address: {"a"}}}
	for _, step := range []struct {
		name   string
		change func()
		want   int
	}{
		{"the start", func() {}, want},
		{"nothing", func() {}, 0},
		{"a new pod", func() { state.Pods = map[netip.Addr]string{pod: "a", pod.Next(): "a"} }, 0},
		{"a pod's end", func() { state.Pods = map[netip.Addr]string{pod: "a"} }, 0},
		{"an address comes", func() { state.Here = []netip.Addr{address} }, want},
		{"an address without an owner comes", func() { state.Here = []netip.Addr{address, pod} }, 0},
		{"another owner", func() { state.Owners = map[netip.Addr][]string{address: {"b"}} }, want},
		{"a pod's other EgressIP", func() { state.Pods = map[netip.Addr]string{pod: "b"} }, want},
		{"an address goes", func() { state.Here = nil }, want},
	} {
		step.change()
		if got := lists(state); got != step.want {
			t.Errorf("%s: %d lists, want %d", step.name, got, step.want)
		}
	}
}

// Only refused entries of the routers' zones are removed.
func TestRefusedEntriesAreRemoved(t *testing.T) {
	var list strings.Builder
	line := func(pod, port, source string) {
		list.WriteString("tcp,orig=(src=" + pod + ",dst=192.0.2.7,sport=" + port + ",dport=443),reply=(src=192.0.2.7,dst=" + source +
			",sport=443,dport=" + port + "),zone=9,protoinfo=(state=ESTABLISHED)\n")
	}
	line("10.244.0.9", "4000", "172.18.0.100")
	line("10.244.0.10", "4001", "172.18.0.100")
	line("10.244.0.10", "4002", "172.18.0.11")
	v := startVswitchd(t, func(call string) (string, string) {
		if strings.HasPrefix(call, dumpCommand) {
			return list.String(), ""
		}
		return "", ""
	})
	state := desired.Sources{
		Pods:   map[netip.Addr]string{netip.MustParseAddr("10.244.0.9"): "", netip.MustParseAddr("10.244.0.10"): "a"},
		Owners: map[netip.Addr][]string{netip.MustParseAddr("172.18.0.100"): {"a"}},
		Here:   []netip.Addr{netip.MustParseAddr("172.18.0.100")}, Own: []netip.Addr{netip.MustParseAddr("172.18.0.11")},
	}
	if err := v.gateway.outside.endSources(t.Context(), "netdev@ovs-netdev", state, []string{"9"}); err != nil {
		t.Fatal(err)
	}
	removed := v.flushes()
	slices.Sort(removed)
	const flush = flushCommand + " netdev@ovs-netdev zone=9 ct_nw_proto=6,ct_nw_src="
	want := []string{flush + "10.244.0.10,ct_nw_dst=192.0.2.7,ct_tp_src=4002,ct_tp_dst=443",
		flush + "10.244.0.9,ct_nw_dst=192.0.2.7,ct_tp_src=4000,ct_tp_dst=443"}
	if !slices.Equal(removed, want) {
		t.Errorf("removed %v, want %v", removed, want)
	}
}
