//go:build e2e

package e2e

import (
	"cmp"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/test/lab"
)

const (
	// movesVariable is the environment variable with the number of moves of each location.
	movesVariable = "WEFT_E2E_MOVES"
	// segmentNetwork is the Network of the Underlay pool, taggedNetwork one with a VLAN.
	segmentNetwork = "rack-segment"
	taggedNetwork  = "rack-vlan"
	moveEvery      = 20 * time.Millisecond // between two echo requests
)

// floatingResults are written to _out/floating.json.
type floatingResults struct {
	Steps []floatingStepResult `json:"steps"`
	Moves []*moveResult        `json:"moves"`
}

// floatingStepResult is who has which address after a step.
type floatingStepResult struct {
	Step      string             `json:"step"`
	TookMs    int64              `json:"tookMs"`
	Workloads map[string]holding `json:"workloads"`
}

// moveResult is how long an address did not answer while it moved to another node: from the first unanswered echo
// request to the first answered one. The end of the old pod and the start of the new one are part of it.
type moveResult struct {
	Location string     `json:"location"`
	Network  string     `json:"network,omitempty"`
	Client   string     `json:"client"`
	Address  netip.Addr `json:"address"`
	GapsMs   []int64    `json:"gapsMs"`
	P50Ms    int64      `json:"p50Ms"`
	MaxMs    int64      `json:"maxMs"`
}

// moving is a location whose address moves, and a client of it.
type moving struct {
	location   networkv1alpha1.IPPoolLocation
	network    string
	ranges     []string
	client     func(*testing.T) caller
	annotation string // of the pod's networks
}

// locations are the places where an address lives.
func locations() []moving {
	host := func(name string) func(*testing.T) caller {
		return func(*testing.T) caller { return bed.hostCaller(name) }
	}
	return []moving{
		{location: networkv1alpha1.LocationNAT, ranges: []string{"172.30.0.160", "fd00:172:30::2:10"}, client: host(lab.Outside().Name)},
		{location: networkv1alpha1.LocationOverlay, ranges: []string{"10.244.202.10", "fd00:10:244:202::10"}, client: movingClient},
		{location: networkv1alpha1.LocationUnderlay, network: segmentNetwork, ranges: []string{"10.122.0.10", "fd00:122::10"},
			client: segmentClient, annotation: segmentNetwork},
		{location: networkv1alpha1.LocationUnderlay, network: taggedNetwork, ranges: []string{"10.123.0.10", "fd00:123::10"},
			client: taggedClient, annotation: taggedNetwork},
	}
}

// movingClient is a pod.
func movingClient(t *testing.T) caller {
	p := bed.peerPod("move-client", "n1")
	bed.run(t, p)
	return bed.podCaller(p)
}

// segmentClient is the router of the nodes' segment, with addresses of the Network.
func segmentClient(t *testing.T) caller {
	router := lab.Router().Name
	for _, address := range []string{"10.122.0.250/24", "fd00:122::250/64"} {
		bed.mustExec(t, router, "ip", "addr", "add", address, "dev", "eth0", "nodad")
		t.Cleanup(func() {
			_, err := bed.Exec(cleanup(), router, "ip", "addr", "del", address, "dev", "eth0")
			must(t, err)
		})
	}
	return bed.hostCaller(router)
}

// taggedClient is a pod on the VLAN, because the lab's machines outside have no VLANs.
func taggedClient(t *testing.T) caller {
	p := requesting("vlan-client", "n1", taggedNetwork)
	bed.run(t, p)
	return bed.podCaller(p)
}

// testFloatingMoves moves the only address of a pool between the nodes while a client sends echo requests to it.
func testFloatingMoves(t *testing.T, results *floatingResults) {
	moves, err := strconv.Atoi(cmp.Or(os.Getenv(movesVariable), "2"))
	must(t, err)
	segment(t, segmentNetwork, 0, networkv1alpha1.NetworkSubnet{CIDR: "10.122.0.0/24"},
		networkv1alpha1.NetworkSubnet{CIDR: "fd00:122::/64"})
	segment(t, taggedNetwork, 123, networkv1alpha1.NetworkSubnet{CIDR: "10.123.0.0/24"},
		networkv1alpha1.NetworkSubnet{CIDR: "fd00:123::/64"})
	for _, m := range locations() {
		t.Run(strings.TrimSpace(string(m.location)+" "+m.network), func(t *testing.T) {
			results.Moves = append(results.Moves, m.try(t, moves)...)
		})
	}
}

// try runs a StatefulSet of one pod and moves it.
func (m moving) try(t *testing.T, moves int) (results []*moveResult) {
	ipPool(t, "move", m.location, m.network, m.ranges...)
	from := m.client(t)
	set := movingSet(m.annotation)
	bed.create(t, set)
	p := &corev1.Pod{}
	p.Namespace, p.Name = namespace, set.Name+"-0"
	bed.awaitReady(t, p)
	for _, text := range m.ranges {
		results = append(results, &moveResult{Location: string(m.location), Network: m.network, Client: from.name,
			Address: netip.MustParseAddr(text)})
	}
	for range moves {
		m.move(t, p, from, results)
	}
	for _, r := range results {
		slices.Sort(r.GapsMs)
		r.P50Ms, r.MaxMs = r.GapsMs[(len(r.GapsMs)-1)/2], r.GapsMs[len(r.GapsMs)-1]
		t.Logf("%s %s, %s from %s: gap p50 %d ms, max %d ms of %d moves", r.Location, r.Network, r.Address, r.Client, r.P50Ms,
			r.MaxMs, len(r.GapsMs))
	}
	return results
}

// movingSet is a StatefulSet of one pod that keeps its address and starts on n1.
func movingSet(annotation string) *appsv1.StatefulSet {
	s := statefulSet("move")
	requestAddress(&s.Spec.Template, "move", networkv1alpha1.ReleaseImmutable, true)
	s.Spec.Template.Spec.NodeName, s.Spec.Template.Spec.Containers[0].ReadinessProbe = "", nil
	s.Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "n1"}
	if annotation != "" {
		s.Spec.Template.Annotations[networks.Annotation] = annotation
	}
	return s
}

// move moves the pod to the other node under echo requests and adds the gaps to the results.
func (m moving) move(t *testing.T, p *corev1.Pod, from caller, results []*moveResult) {
	t.Helper()
	argv := []string{"ping", "--every=" + moveEvery.String()}
	for _, r := range results {
		argv = append(argv, "--to="+r.Address.String())
	}
	cmd, err := from.command(t.Context(), argv...)
	must(t, err)
	running := awaitPings(t, from.name, cmd)
	target, was := other(p.Spec.NodeName), p.UID
	bed.mustKubectl(t, "-n", namespace, "patch", "statefulset", "move", "--type=merge", "-p",
		fmt.Sprintf(`{"spec":{"template":{"spec":{"nodeSelector":{%q:%q}}}}}`, corev1.LabelHostname, target))
	eventually(t, changeTimeout, func() error {
		if err := bed.api.Get(t.Context(), named(p.Name), p); err != nil {
			return err
		}
		if p.UID == was || p.Spec.NodeName != target {
			return fmt.Errorf("pod %s is still on %s", p.Name, p.Spec.NodeName)
		}
		return notReady(p)
	})
	for _, r := range results {
		eventually(t, readyTimeout, func() error { return answeredOnce(t, from, r.Address) })
	}
	for _, got := range running.stop(t) {
		for _, r := range results {
			if r.Address == got.To {
				r.GapsMs = append(r.GapsMs, longest(got).Milliseconds())
			}
		}
	}
}

// answeredOnce returns nil if the address answers a call.
func answeredOnce(t *testing.T, from caller, address netip.Addr) error {
	return answeredBy(t, from, address, "move-0", netip.Addr{})
}

// longest returns the longest time without an answer.
func longest(p pinged) (gap time.Duration) {
	for _, g := range p.Gaps {
		gap = max(gap, g.Until.Sub(g.At)) // a busy machine sends fewer requests
	}
	return gap
}
