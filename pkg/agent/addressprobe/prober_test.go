package addressprobe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/neighbour"
)

// segment is a segment with hosts.
type segment struct {
	mu     sync.Mutex
	hosts  map[netip.Addr]net.HardwareAddr
	down   bool
	probed []string
}

func (s *segment) users(_ context.Context, on neighbour.Segment, all []netip.Addr) (map[netip.Addr]net.HardwareAddr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range all {
		s.probed = append(s.probed, fmt.Sprint(a, "@", on.Link))
	}
	if s.down {
		return nil, fmt.Errorf("probe %v: %w", all, errors.New("network is down"))
	}
	return maps.Clone(s.hosts), nil
}

func (s *segment) set(hosts map[netip.Addr]net.HardwareAddr, down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hosts, s.down = hosts, down
}

func (s *segment) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	probed := s.probed
	s.probed = nil
	slices.Sort(probed)
	return probed
}

var (
	gateway = &networkv1alpha1.NodeGatewayStatus{Bridge: "br-ex", Interface: "eth0",
		Addresses:    []networkv1alpha1.InterfaceAddress{"192.0.2.1/24", "2001:db8::1/64"},
		FurtherLinks: []networkv1alpha1.NodeLink{{Name: "eth1", Addresses: []networkv1alpha1.InterfaceAddress{"198.51.100.1/24"}}}}
	at      = metav1.Unix(1000, 0)
	foreign = netip.MustParseAddr("192.0.2.77")
	mac     = net.HardwareAddr{2, 0, 0, 0, 0, 0x77}
)

func requestsOf(addresses ...networkv1alpha1.IP) (all []networkv1alpha1.AddressProbe) {
	for _, a := range addresses {
		all = append(all, networkv1alpha1.AddressProbe{Address: a, RequestedAt: at})
	}
	return all
}

// textsOf returns results as texts: "<address> <MAC>", "<address>", or "<address> !<error>".
func textsOf(results []networkv1alpha1.ProbedAddress) (texts []string) {
	for _, r := range results {
		text := string(r.Address)
		if r.MACAddress != "" {
			text += " " + string(r.MACAddress)
		}
		if r.Error != "" {
			text += " !" + r.Error
		}
		texts = append(texts, text)
	}
	return texts
}

// A Prober reports who has an address, on the link with the address' network, and reports when a host releases it. It probes less and
// less often, and no longer than it is requested to.
func TestProber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, changes := &segment{hosts: map[netip.Addr]net.HardwareAddr{foreign: mac}}, 0
		p := New(Options{Users: s.users, Changed: func() { changes++ }, Now: time.Now})
		requests := requestsOf("192.0.2.77", "192.0.2.78", "198.51.100.7", "203.0.113.7")
		expect := func(when string, changed int, want ...string) {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(want, textsOf(p.Follow(requests, gateway, nil))); diff != "" || changes != changed {
				t.Errorf("%s: %d changes, want %d; results (-want, +have):\n%s", when, changes, changed, diff)
			}
			synctest.Wait()
		}
		expect("before a probe", 0)
		ctx, stop := context.WithCancel(t.Context())
		go func() { _ = p.Run(ctx) }()
		const none = " !no link to the outside has a network with the address"
		held := []string{"192.0.2.77 02:00:00:00:00:77", "192.0.2.78", "198.51.100.7", "203.0.113.7" + none}
		expect("after a probe", 3, held...)
		if diff := cmp.Diff([]string{"192.0.2.77@br-ex", "192.0.2.78@br-ex", "198.51.100.7@eth1"}, s.take()); diff != "" {
			t.Errorf("probed (-want, +have):\n%s", diff)
		}
		time.Sleep(10 * time.Minute)
		expect("later", 3, held...)
		if n := len(s.take()) / 3; n < 19 || n > 24 {
			t.Errorf("%d probes in ten minutes", n)
		}
		s.set(nil, false)
		time.Sleep(most)
		free := []string{"192.0.2.77", "192.0.2.78", "198.51.100.7", "203.0.113.7" + none}
		expect("when the host has gone", 4, free...)
		s.set(nil, true)
		time.Sleep(most)
		expect("when the links are down", 4, free...)
		requests = nil
		expect("without a request", 4)
		s.take()
		time.Sleep(time.Hour)
		if probed := s.take(); probed != nil {
			t.Errorf("it probes %v without a request", probed)
		}
		stop()
	})
}

// A new process reports the results of the former one until it has its own, and does not report an earlier request's result.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, changes := &segment{hosts: map[netip.Addr]net.HardwareAddr{foreign: mac}}, 0
		p := New(Options{Users: s.users, Changed: func() { changes++ }, Now: time.Now})
		reported := []networkv1alpha1.ProbedAddress{
			{Address: "192.0.2.77", RequestedAt: metav1.NewTime(at.UTC()), MACAddress: networkv1alpha1.MACAddress(mac.String())},
			{Address: "192.0.2.78", RequestedAt: metav1.Unix(500, 0)}}
		have := textsOf(p.Follow(requestsOf("192.0.2.77", "192.0.2.78"), gateway, reported))
		if diff := cmp.Diff([]string{"192.0.2.77 02:00:00:00:00:77"}, have); diff != "" {
			t.Errorf("(-want, +have):\n%s", diff)
		}
		p.Follow(requestsOf("192.0.2.77"), gateway, reported)
		ctx, stop := context.WithCancel(t.Context())
		go func() { _ = p.Run(ctx) }()
		time.Sleep(time.Hour)
		if changes > 0 {
			t.Errorf("%d changes without a changed result", changes)
		}
		stop()
	})
}
