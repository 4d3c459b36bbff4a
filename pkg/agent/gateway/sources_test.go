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
// nothing, and neither does a pod of another node that comes to the EgressIP.
func TestSourcesAreListedSeveralTimes(t *testing.T) {
	pod, fresh, remote, address := netip.MustParseAddr("10.244.0.9"), netip.MustParseAddr("10.244.0.10"), netip.MustParseAddr("10.244.7.7"),
		netip.MustParseAddr("172.18.0.100")
	now := time.Now()
	var s sources
	var leaving desired.Leaving
	var carried map[netip.Addr][]string
	local := map[netip.Addr]bool{pod: true}
	lists := func() (count int) {
		for range 100 {
			if s.note(leaving, carried, local, now) {
				count++
				s.listed(now)
			}
			now = now.Add(500 * time.Millisecond)
		}
		return count
	}
	of := func(name string, pods ...netip.Addr) desired.Leaving {
		set := map[netip.Addr]bool{}
		for _, p := range pods {
			set[p] = true
		}
		return desired.Leaving{{EgressIP: name, Family: "IPv4"}: set}
	}
	want := 1 + len(staleGaps())
	for _, step := range []struct {
		name   string
		change func()
		want   int
	}{
		{"the start", func() {}, want},
		{"nothing", func() {}, 0},
		{"an address comes", func() { carried = map[netip.Addr][]string{address: {"a"}} }, want},
		{"a pod of another node", func() { leaving = of("a", remote) }, 0},
		{"a pod of this node gets it", func() { leaving = of("a", remote, pod) }, want},
		{"the set is read again", func() { leaving = of("a", remote, pod) }, 0},
		{"a new pod", func() { leaving, local = of("a", remote, pod, fresh), map[netip.Addr]bool{pod: true, fresh: true} }, 0},
		{"a pod of another node loses it", func() { leaving = of("a", pod, fresh) }, want},
		{"another EgressIP", func() { leaving, carried = of("b", pod, fresh), map[netip.Addr][]string{address: {"b"}} }, want},
		{"an address goes", func() { carried = nil }, want},
	} {
		step.change()
		if got := lists(); got != step.want {
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
		Pods:    []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")},
		Leaving: desired.Leaving{{EgressIP: "a", Family: "IPv4"}: {netip.MustParseAddr("10.244.0.10"): true}},
		Owners:  map[netip.Addr][]string{netip.MustParseAddr("172.18.0.100"): {"a"}},
		Here:    []netip.Addr{netip.MustParseAddr("172.18.0.100")}, Own: []netip.Addr{netip.MustParseAddr("172.18.0.11")},
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
