//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/poll"
)

// rackLabel is the label of the nodes that selects the ranges which they carry: n1 is in rack 1, n2 in rack 2.
const rackLabel = "rack"

// TestFloating runs pods with addresses of IPPools on two nodes with different segments: packets of each location, who
// has which address while workloads change, and how long an address does not answer while it moves.
func TestFloating(t *testing.T) {
	for _, node := range []string{"n1", "n2"} {
		bed.setLabel(t, node, rackLabel, strings.TrimPrefix(node, "n"))
	}
	results := &floatingResults{}
	t.Cleanup(func() { writeReport(t, "floating.json", results) })
	t.Run("packets", testFloatingPackets)
	t.Run("policies", func(t *testing.T) { testFloatingPolicies(t, results) })
	t.Run("moves", func(t *testing.T) { testFloatingMoves(t, results) })
	bed.awaitConsistent(t)
}

// setLabel labels a node until the test's end.
func (b *testbed) setLabel(t *testing.T, node, key, value string) {
	t.Helper()
	set := func(value string) error {
		return b.api.Patch(cleanup(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, client.RawPatch("application/merge-patch+json",
			fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, key, value)))
	}
	must(t, set(fmt.Sprintf("%q", value)))
	t.Cleanup(func() { must(t, set("null")) })
}

// rangesOf returns ranges of addresses; a range with "rack=1 " before it is carried by that rack only.
func rangesOf(texts ...string) (ranges []networkv1alpha1.IPPoolRange) {
	for _, text := range texts {
		var r networkv1alpha1.IPPoolRange
		if rack, addresses, ok := strings.Cut(text, " "); ok {
			r.Addresses = addresses
			r.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{rackLabel: strings.TrimPrefix(rack, rackLabel+"=")}}
		} else {
			r.Addresses = text
		}
		ranges = append(ranges, r)
	}
	return ranges
}

// ipPool creates a pool for all namespaces and waits until it is in force. The test's cleanup releases its addresses and
// removes it.
func ipPool(t *testing.T, name string, location networkv1alpha1.IPPoolLocation, network string, ranges ...string) {
	t.Helper()
	p := &networkv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec = networkv1alpha1.IPPoolSpec{Location: location, Network: network, Ranges: rangesOf(ranges...),
		Namespaces: &metav1.LabelSelector{}}
	must(t, bed.api.Create(t.Context(), p))
	t.Cleanup(func() { must(t, removePool(p)) })
	eventually(t, readyTimeout, func() error {
		if err := bed.api.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		for _, c := range p.Status.Conditions {
			if c.Type == "Ready" && c.Status == metav1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("IPPool %s is not in force: %v", name, p.Status.Conditions)
	})
}

// removePool releases a pool's kept addresses and deletes it, once its pods have ended.
func removePool(p *networkv1alpha1.IPPool) error {
	return poll.Slowly(cleanup(), readyTimeout, func() error {
		var all networkv1alpha1.FloatingIPList
		if err := bed.api.List(cleanup(), &all, client.MatchingLabels{networkv1alpha1.PoolLabel: p.Name}); err != nil {
			return err
		}
		for i := range all.Items {
			f := &all.Items[i]
			if f.Spec.Holder == nil {
				continue
			}
			if f.Spec.Holder.PodUID != "" {
				return fmt.Errorf("pod %s still has %s", f.Spec.Holder.Pod, f.Spec.Address)
			}
			f.Spec.Holder = nil
			if err := bed.api.Update(cleanup(), f); err != nil {
				return err
			}
		}
		return client.IgnoreNotFound(bed.api.Delete(cleanup(), p))
	})
}

// floatingPod is a peer that requests an address.
func floatingPod(name, node, pool string) *corev1.Pod {
	p := bed.peerPod(name, node)
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, networkv1alpha1.IPPoolAnnotation, pool)
	return p
}

// floatingIPs returns the FloatingIPs of a pool.
func floatingIPs(t *testing.T, pool string) []networkv1alpha1.FloatingIP {
	t.Helper()
	var all networkv1alpha1.FloatingIPList
	must(t, bed.api.List(t.Context(), &all, client.MatchingLabels{networkv1alpha1.PoolLabel: pool}))
	return all.Items
}

// floatingOf returns the addresses that a pod holds: IPv4, then IPv6.
func floatingOf(t *testing.T, p *corev1.Pod, pool string) (addresses []netip.Addr) {
	t.Helper()
	for _, f := range floatingIPs(t, pool) {
		if f.Spec.Holder != nil && f.Spec.Holder.PodUID == p.UID {
			addresses = append(addresses, netip.MustParseAddr(string(f.Spec.Address)))
		}
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	if len(addresses) != 2 {
		t.Fatalf("pod %s has the addresses %v of IPPool %s, want one of each family", p.Name, addresses, pool)
	}
	return addresses
}

// testFloatingPackets exchanges packets with pods of Overlay and NAT pools, in both directions.
func testFloatingPackets(t *testing.T) {
	ipPool(t, "overlay", networkv1alpha1.LocationOverlay, "", "rack=1 10.244.200.16-10.244.200.31", "rack=2 10.244.200.32-10.244.200.47",
		"fd00:10:244:200::10-fd00:10:244:200::3f")
	ipPool(t, "nat", networkv1alpha1.LocationNAT, "", "172.30.0.128-172.30.0.143", "fd00:172:30::1:10-fd00:172:30::1:3f")
	bed.serveOn(t, lab.Outside().Name)
	var overlay, translated []*corev1.Pod
	for _, node := range []string{"n1", "n2"} {
		overlay = append(overlay, floatingPod("overlay-"+node, node, "overlay"))
		translated = append(translated, floatingPod("nat-"+node, node, "nat"))
	}
	plain := bed.peerPod("nat-client", "n1")
	bed.run(t, append(append(slices.Clone(overlay), translated...), plain)...)
	inside := []caller{bed.hostCaller("n1"), bed.hostCaller("n2")}
	for _, p := range append(slices.Clone(overlay), translated...) {
		inside = append(inside, bed.podCaller(p))
	}
	for _, p := range overlay {
		addresses := floatingOf(t, p, "overlay")
		if got := addressesOf(p); !slices.Equal(got, addresses) {
			t.Errorf("pod %s has %v, its FloatingIPs are %v", p.Name, got, addresses)
		}
		answers(t, p, addresses, inside...)
	}
	outside := []caller{bed.hostCaller(lab.Outside().Name), bed.hostCaller(lab.Router().Name)}
	for _, p := range translated {
		addresses := floatingOf(t, p, "nat")
		answers(t, p, addresses, append(outside, bed.podCaller(plain), bed.podCaller(overlay[0]), bed.podCaller(overlay[1]),
			bed.podCaller(translated[0]), bed.podCaller(translated[1]))...)
		for i, to := range addressList(lab.Outside().IPv4.Addr().String(), lab.Outside().IPv6.Addr().String()) {
			goesOutAs(t, p, to, addresses[i])
		}
	}
}

// answers calls a pod's addresses from each caller.
func answers(t *testing.T, p *corev1.Pod, addresses []netip.Addr, callers ...caller) {
	t.Helper()
	for _, from := range callers {
		for _, to := range addresses {
			err := poll.Slowly(t.Context(), readyTimeout, func() error { return answeredBy(t, from, to, p.Name, netip.Addr{}) })
			if err != nil {
				t.Errorf("%s calls %s of pod %s: %v", from.name, to, p.Name, err)
			}
		}
	}
}

// goesOutAs makes a pod call the host outside, which must see the address.
func goesOutAs(t *testing.T, p *corev1.Pod, to, address netip.Addr) {
	t.Helper()
	eventually(t, readyTimeout, func() error { return answeredBy(t, bed.podCaller(p), to, lab.Outside().Name, address) })
}

// answeredBy makes a call, which a server must answer. A valid client is the address that the server must see.
func answeredBy(t *testing.T, from caller, to netip.Addr, server string, client netip.Addr) error {
	all, err := from.call(t.Context(), "tcp", netip.AddrPortFrom(to, whoPort), 1)
	if err != nil {
		return err
	}
	for _, c := range all {
		if c.Error != "" || c.Server != server {
			return fmt.Errorf("%q answers, want %s: %s", c.Server, server, c.Error)
		}
		seen, err := netip.ParseAddrPort(c.Client)
		if err != nil || client.IsValid() && seen.Addr().Unmap() != client {
			return fmt.Errorf("the server sees %s, want %s", c.Client, client)
		}
		return nil
	}
	return errors.New("no call was made")
}
