package attach

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/neighbour"
)

// A foreign host is reported from its first answer until an hour after it, across a restart of the agent, or until a probe finds nobody.
// Further answers of the host change the report every half hour. Of too many hosts the latest are reported.
func TestForeignHosts(t *testing.T) {
	changes, next := 0, time.Duration(0)
	fresh := func() *ForeignHosts {
		return NewForeignHosts(func() { changes++ }, func(wait time.Duration) { next = wait })
	}
	f, start := fresh(), time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	segment := desired.VIF{PhysicalNetwork: "dc", VLAN: 100}
	used := func(n int, mac byte) *neighbour.UsedError {
		return &neighbour.UsedError{Address: netip.AddrFrom4([4]byte{10, 77, 0, byte(n)}), MAC: net.HardwareAddr{2, 0, 0, 0, 0, mac}}
	}
	var reported []networkv1alpha1.ForeignHost
	want := func(after time.Duration, wantChanges int, want string) {
		t.Helper()
		reported = f.Report(reported, start.Add(after))
		have := ""
		for _, host := range reported {
			have += fmt.Sprintf("%s.%d %s %s; ", host.PhysicalNetwork, host.VLAN, host.Address, host.MACAddress)
		}
		if have != want || changes != wantChanges {
			t.Errorf("after %s: %d changes, %q, want %d, %q", after, changes, have, wantChanges, want)
		}
	}
	const first, second = "dc.100 10.77.0.1 02:00:00:00:00:01; ", "dc.100 10.77.0.2 02:00:00:00:00:02; "
	f.answered(segment, used(1, 1), start)
	want(0, 1, first)
	f.answered(segment, used(1, 1), start.Add(29*time.Minute))
	f.answered(segment, used(2, 2), start.Add(30*time.Minute))
	want(30*time.Minute, 2, first+second)
	if next != 30*time.Minute {
		t.Errorf("the next report is due after %s", next)
	}
	f = fresh() // a restart
	want(59*time.Minute, 2, first+second)
	want(60*time.Minute, 2, second)
	f.answered(segment, used(2, 2), start.Add(60*time.Minute)) // renewed
	want(119*time.Minute, 3, second)
	f.answered(segment, used(2, 3), start.Add(119*time.Minute)) // another host
	want(119*time.Minute, 4, "dc.100 10.77.0.2 02:00:00:00:00:03; ")
	f.silent(desired.VIF{PhysicalNetwork: "dc"}, []netip.Addr{used(2, 3).Address}) // on another segment
	want(119*time.Minute, 4, "dc.100 10.77.0.2 02:00:00:00:00:03; ")
	f.silent(segment, []netip.Addr{used(2, 3).Address})
	want(119*time.Minute, 5, "")

	for n := range networkv1alpha1.MaxForeignHosts + 2 {
		f.answered(segment, used(n, 9), start.Add(2*time.Hour+time.Duration(n)*time.Second))
	}
	reported = f.Report(nil, start.Add(2*time.Hour))
	if len(reported) != networkv1alpha1.MaxForeignHosts || reported[0].Address != "10.77.0.10" {
		t.Errorf("%d hosts from %s on are reported", len(reported), reported[0].Address)
	}
}
