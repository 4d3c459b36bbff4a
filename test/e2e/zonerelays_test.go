//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ports"
)

// relayServer is a relay of the southbound database.
var relayServer = daemon{"relay", "ovsdb-server", "ovnsb_relay"}

// TestRelaysOfAZone puts two relays between the southbound database of a zone and the zone's nodes while pods reach each other. A relay is
// killed, a relay hangs, and a node with a relay leaves the zone and returns. The nodes outside the zone use no relay.
func TestRelaysOfAZone(t *testing.T) {
	pods := threeInZone(t, "relayed")
	var nodes []string
	for _, p := range pods {
		nodes = append(nodes, p.Spec.NodeName)
	}
	began, stop := time.Now(), through(t, pods, nodes[2])
	must(t, bed.setZoneRelays(cleanup(), 2))
	eventually(t, zoneTimeout, func() error { return relaysServe(t.Context(), 2, nodes[0]) })
	m := stop()
	t.Logf("two relays serve the zone after %s", milliseconds(time.Since(began)))
	m.mustKeepPackets(t)
	bed.awaitConsistent(t)

	t.Run("a relay is killed", func(t *testing.T) {
		node := zoneRelays(t)[0].Node
		stop := through(t, pods, node)
		bed.signal(t, node, relayServer, syscall.SIGKILL)
		newPodsReach(t, "relay-killed", nodes...)
		stop().mustKeepPackets(t)
		eventually(t, zoneTimeout, func() error { return relaysServe(t.Context(), 2, nodes[0]) })
	})
	t.Run("a relay hangs", func(t *testing.T) { testRelayHangs(t, pods, nodes) })
	t.Run("a node with a relay moves", func(t *testing.T) {
		node := zoneRelays(t)[1].Node
		testZoneMove(t, pods, node, "")
		if slices.ContainsFunc(zoneRelays(t), func(r networkv1alpha1.RelayStatus) bool { return r.Node == node && r.State.InUse() }) {
			t.Errorf("a relay of the zone is on node %s, which left it: %+v", node, zoneRelays(t))
		}
		eventually(t, zoneTimeout, func() error { return relaysServe(t.Context(), 2, nodes[0], node) })
		testZoneMove(t, pods, node, zone)
		eventually(t, zoneTimeout, func() error { return relaysServe(t.Context(), 2, nodes[0]) })
	})

	stop = through(t, pods, nodes[2])
	must(t, bed.setZoneRelays(cleanup(), 0))
	eventually(t, zoneTimeout, func() error { return relaysServe(t.Context(), 0, nodes[0]) })
	stop().mustKeepPackets(t)
	bed.mustReach(t, pods...)
	bed.awaitConsistent(t)
}

// testRelayHangs stops a relay. Its nodes use the other one, pods start in the zone, and the status names the relay.
func testRelayHangs(t *testing.T, pods []*corev1.Pod, nodes []string) {
	node := zoneRelays(t)[0].Node
	stop := through(t, pods, node)
	t.Cleanup(func() { bed.signal(t, node, relayServer, syscall.SIGCONT) })
	bed.signal(t, node, relayServer, syscall.SIGSTOP)
	began := time.Now()
	newPodsReach(t, "relay-hangs", nodes...)
	t.Logf("new pods reach each other %s after the relay on node %s hung", milliseconds(time.Since(began)), node)
	eventually(t, zoneTimeout, func() error {
		s, err := faultStatus(t)
		if err == nil && !slices.ContainsFunc(s.Problems, func(p networkv1alpha1.Problem) bool {
			return p.Reason == networkv1alpha1.ReasonRelayUnavailable && strings.Contains(p.Message, "of zone "+zone+" on node "+node)
		}) {
			err = fmt.Errorf("no problem names the relay: %+v", s.Problems)
		}
		return err
	})
	stop().mustKeepPackets(t)
	bed.signal(t, node, relayServer, syscall.SIGCONT)
	eventually(t, zoneTimeout, func() error { return errors.Join(relaysServe(t.Context(), 2, nodes[0]), healthy(t)) })
	bed.mustReach(t, pods...)
}

// newPodsReach starts a pod on each node, and ends them when they have reached each other.
func newPodsReach(t *testing.T, name string, nodes ...string) {
	t.Helper()
	var pods []*corev1.Pod
	for _, node := range nodes {
		p := bed.peerPod(name+"-"+node, node)
		bed.create(t, p)
		pods = append(pods, p)
	}
	eventually(t, zoneTimeout, func() error { return bed.reachEachOther(t.Context(), pods...) })
	for _, p := range pods {
		bed.remove(t, p)
	}
}

// setZoneRelays sets the number of relays of the first zone.
func (b *testbed) setZoneRelays(ctx context.Context, n int32) error {
	return b.changeZone(ctx, func(z *networkv1alpha1.Zone) { z.Databases.Relays.Count = n })
}

// zoneRelays returns the relays of the zone.
func zoneRelays(t *testing.T) []networkv1alpha1.RelayStatus {
	t.Helper()
	zones, err := bed.zones(t.Context())
	must(t, err)
	if len(zones) != 1 {
		t.Fatalf("zones: %+v", zones)
	}
	return zones[0].Relays
}

// relaysServe returns nil if the zone has this number of relays, all ready, and the ovn-controller and the agent of each of its nodes are
// connected to a relay, or to the database if it has none. On nodes outside the zone they are connected to their database.
func relaysServe(ctx context.Context, want int, outside ...string) error {
	zones, err := bed.zones(ctx)
	if err != nil {
		return err
	}
	if len(zones) != 1 || len(zones[0].Relays) != want {
		return fmt.Errorf("zones %+v, want %d relays", zones, want)
	}
	for _, r := range zones[0].Relays {
		if r.State != networkv1alpha1.RelayReady {
			return fmt.Errorf("relay %+v", r)
		}
	}
	nodes, err := bed.Nodes()
	if err != nil {
		return err
	}
	var wrong []error
	for _, n := range nodes {
		relayed := want > 0 && !slices.Contains(outside, n.Name)
		nn := &networkv1alpha1.NodeNetwork{}
		if err := bed.api.Get(ctx, types.NamespacedName{Name: n.Name}, nn); err != nil {
			return err
		}
		if relayed != (len(nn.Spec.Relays) > 0) {
			wrong = append(wrong, fmt.Errorf("node %s uses relays %v", n.Name, nn.Spec.Relays))
		}
		wrong = append(wrong, bed.connectedTo(ctx, n.Name, relayed))
	}
	return errors.Join(wrong...)
}

// connectedTo returns nil if the ovn-controller and the agent of a node are connected to a relay, or to a database.
func (b *testbed) connectedTo(ctx context.Context, node string, relay bool) error {
	out, err := b.Exec(ctx, node, "sh", "-c", "ss -Htnp state established | awk '{print $4, $5}'")
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	to := map[string]int{"ovn-controller": ports.Southbound, "weft-agent": ports.SouthboundReader}
	if relay {
		to = map[string]int{"ovn-controller": ports.Relay, "weft-agent": ports.RelayReader}
	}
	var wrong []error
	for program, port := range to {
		connected := slices.ContainsFunc(strings.Split(string(out), "\n"), func(line string) bool {
			peer, by, _ := strings.Cut(line, " ")
			return strings.HasSuffix(peer, fmt.Sprintf(":%d", port)) && strings.Contains(by, `"`+program+`"`)
		})
		if !connected {
			wrong = append(wrong, fmt.Errorf("%s of node %s is not connected to port %d", program, node, port))
		}
	}
	return errors.Join(wrong...)
}
