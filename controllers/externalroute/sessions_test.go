package externalroute_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/externalroute"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/test/kindtest"
)

// session is the BFD session of a node with a router.
func session(node, with, status string) *nbdb.BFD {
	s := &nbdb.BFD{UUID: node + with, LogicalPort: "rtoe-GR_" + node, DstIP: with}
	if status != "" {
		s.Status = &status
	}
	return s
}

// A watched router that does not answer is named, with the nodes, and not counted as in use; a session that starts counts as up.
func TestRoutersThatAreDown(t *testing.T) {
	const two = "192.0.2.2 bfd, 2001:db8::2: "
	var many []*nbdb.BFD
	for i := range 7 {
		many = append(many, session(fmt.Sprintf("n%d", i), "192.0.2.2", "down"))
	}
	for name, c := range map[string]struct {
		sessions []*nbdb.BFD
		former   []networkv1alpha1.DownNextHop
		after    time.Duration
		want     string
		again    bool
	}{
		"all answer": {sessions: []*nbdb.BFD{session("n1", "192.0.2.2", "up"), session("n2", "192.0.2.2", "up")}, after: time.Hour,
			want: two + "True AsExpected routers in use: 2"},
		"one node gets no answer": {after: time.Hour,
			sessions: []*nbdb.BFD{session("n1", "192.0.2.2", "up"), session("n2", "192.0.2.2", "down")},
			want:     two + "False NextHopsDown next hop 192.0.2.2 is down: it answers no BFD of n2; routers in use: 2 of 2; down 192.0.2.2 1"},
		"no node gets an answer": {after: time.Hour,
			sessions: []*nbdb.BFD{session("n2", "192.0.2.2", "init"), session("n1", "192.0.2.2", "down")},
			want:     two + "False NextHopsDown next hop 192.0.2.2 is down: it answers no BFD of n1, n2; routers in use: 1 of 2; down 192.0.2.2 2"},
		"many nodes get none": {sessions: many, after: time.Hour, want: two + "False NextHopsDown next hop 192.0.2.2 is down: " +
			"it answers no BFD of n0, n1, n2, n3, n4 and 2 more; routers in use: 1 of 2; down 192.0.2.2 7"},
		"a session starts": {sessions: []*nbdb.BFD{session("n1", "192.0.2.2", "down")}, again: true,
			want: two + "True AsExpected routers in use: 2"},
		"a session of a router that was down": {sessions: []*nbdb.BFD{session("n1", "192.0.2.2", "down")},
			former: []networkv1alpha1.DownNextHop{{Address: "192.0.2.2", Nodes: 1}},
			want:   two + "False NextHopsDown next hop 192.0.2.2 is down: it answers no BFD of n1; routers in use: 1 of 2; down 192.0.2.2 1"},
		"a router that was down answers": {sessions: []*nbdb.BFD{session("n1", "192.0.2.2", "up")},
			former: []networkv1alpha1.DownNextHop{{Address: "192.0.2.2", Nodes: 1}}, want: two + "True AsExpected routers in use: 2"},
		"sessions that northd has not seen, or that no route uses": {after: time.Hour, want: two + "True AsExpected routers in use: 2",
			sessions: []*nbdb.BFD{session("n1", "192.0.2.2", ""), session("n2", "192.0.2.2", "admin_down")}},
		"a session of another ExternalRoute": {sessions: []*nbdb.BFD{session("n1", "2001:db8::2", "down")}, after: time.Hour,
			want: two + "True AsExpected routers in use: 2"},
	} {
		t.Run(name, func(t *testing.T) {
			route := aRoute(networkv1alpha1.ExternalNextHops{Static: static("192.0.2.2", "2001:db8::2")})
			route.Status.Down = c.former
			b := kindtest.New(t, externalroute.Kinds, topology.KindExternalRoute, nil, route, selected("web"))
			b.Database.Sessions = c.sessions
			now := kindtest.Start
			b.Kinds[0].Reconciler.(*externalroute.Reconciler).Now = func() time.Time { return now }
			outcome := b.Reconcile("", "out")
			if c.after > 0 {
				now = now.Add(c.after)
				outcome = b.Reconcile("", "out")
			}
			got := state(b)
			for _, d := range kindtest.Get(b, aRoute(networkv1alpha1.ExternalNextHops{})).Status.Down {
				got += fmt.Sprintf("; down %s %d", d.Address, d.Nodes)
			}
			if got != c.want {
				t.Errorf("%s\nwant\n%s", got, c.want)
			}
			if again := outcome.Result.RequeueAfter > 0; again != c.again {
				t.Errorf("reconciled again: %v", outcome.Result)
			}
			if warned := len(outcome.Events) > 0; warned != strings.Contains(c.want, "False") {
				t.Errorf("events %q", outcome.Events)
			}
			if !c.again {
				b.ExpectSettled("", "out")
			}
		})
	}
}

// A route whose selectors select no pod of the pod network says so, and stays Ready.
func TestRouteOfNoPod(t *testing.T) {
	ended, onHost, waits := selected("ended"), selected("host"), selected("waits")
	ended.Status.Phase, onHost.Spec.HostNetwork, waits.Spec.NodeName = "Succeeded", true, ""
	b := kindtest.New(t, externalroute.Kinds, topology.KindExternalRoute, nil,
		aRoute(networkv1alpha1.ExternalNextHops{Static: static("192.0.2.2")}), ended, onHost, waits)
	expect := func(want string) {
		t.Helper()
		if outcome := b.Reconcile("", "out"); len(outcome.Events) > 0 {
			t.Errorf("events %q", outcome.Events)
		}
		if got := state(b); got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
	expect("192.0.2.2 bfd: True AsExpected routers in use: 1; the selectors select no pod")
	var pod client.Object = selected("web")
	b.Create(pod)
	expect("192.0.2.2 bfd: True AsExpected routers in use: 1")
	b.Delete(pod)
	expect("192.0.2.2 bfd: True AsExpected routers in use: 1; the selectors select no pod")
}
