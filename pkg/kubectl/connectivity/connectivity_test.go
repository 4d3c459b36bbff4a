package connectivity

import (
	"encoding/xml"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata")

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func addresses(texts ...string) (all []netip.Addr) {
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

// bedOf returns a bed of nodes. The index of a node is in its addresses.
func bedOf(nodes int) Bed {
	b := Bed{Namespace: "weft-check-x", ClusterIPs: addresses("10.96.0.7", "fd00:10:96::7"),
		NodePorts: map[string]int{"tcp": 30001, "udp": 30002}}
	for i := range nodes {
		name := fmt.Sprintf("n%d", i)
		pod := func(role string, host int) Pod {
			return Pod{Name: PodName(role, i), Node: name,
				Addresses: addresses(fmt.Sprintf("10.244.%d.%d", i, host), fmt.Sprintf("fd00:%d::%d", i, host))}
		}
		b.Nodes = append(b.Nodes, Node{Name: name, Addresses: addresses(fmt.Sprintf("172.18.0.%d", i+1)), A: pod("a", 3), B: pod("b", 4)})
	}
	return b
}

func lineOf(c Cell) string {
	servers := "anyone"
	if len(c.Servers) > 0 {
		servers = strings.Join(c.Servers, ",")
	}
	blocked := ""
	if c.Blocked {
		blocked = "!"
	}
	return fmt.Sprintf("%s%s %s %s | %s -> %s | %s %s from %s | %s | trace %s", blocked, c.Group, c.Family(), c.Protocol, c.From, c.To,
		c.Probe.Kind, c.Probe.To, servers, c.Probe.Patience, strings.Join(c.Trace, " "))
}

// testdata/matrix.txt is all that is tested on two nodes whose hosts have IPv4 only.
func TestMatrix(t *testing.T) {
	b := bedOf(2)
	b.Outside = []string{"192.0.2.10:443", "[2001:db8::10]:443", "example.org:443"}
	var text strings.Builder
	for _, part := range []struct {
		title string
		cells []Cell
	}{{"without policies", b.Matrix()}, {"deny", b.Denied()}, {"allow", b.Allowed()}, {"flows", b.Directions()}} {
		fmt.Fprintf(&text, "# %s\n", part.title)
		for _, c := range part.cells {
			fmt.Fprintln(&text, lineOf(c))
		}
	}
	golden(t, "matrix.txt", text.String())
}

// Every pair of nodes is tested in both directions, each node alone too, and nothing twice.
func TestMatrixIsComplete(t *testing.T) {
	for nodes := 1; nodes <= 4; nodes++ {
		b := bedOf(nodes)
		seen, pairs := map[string]bool{}, map[string]bool{}
		for _, c := range slices.Concat(b.Matrix(), b.Denied()) {
			line := lineOf(c)
			if seen[line] {
				t.Errorf("%d nodes: twice: %s", nodes, line)
			}
			if seen[line] = true; c.Group == PodToPod {
				pairs[c.Sender.Node+" "+c.Servers[0][2:]+" "+c.Family()+" "+c.Protocol] = true
			}
		}
		if want := nodes * nodes * 2 * 2; len(pairs) != want {
			t.Errorf("%d nodes: %d combinations of nodes, family and protocol, want %d", nodes, len(pairs), want)
		}
		if len(b.Allowed()) == 0 || !slices.ContainsFunc(b.Allowed(), func(c Cell) bool { return c.Blocked }) {
			t.Errorf("%d nodes: no packet is stopped beside the policy that allows", nodes)
		}
	}
}

// The families are the common families of all pods. A pod that does not run has no say.
func TestFamilies(t *testing.T) {
	b := bedOf(2)
	b.Nodes[1].B.Addresses = addresses("fd00:1::4")
	if got := b.Families(); !slices.Equal(got, []bool{true}) {
		t.Errorf("families %v, want IPv6", got)
	}
	b.Nodes[1].B.Why = "ImagePullBackOff"
	if got := b.Families(); len(got) != 2 {
		t.Errorf("families %v, want both", got)
	}
	for _, c := range b.Matrix() {
		p, unstarted := b.Unstarted(c)
		if unstarted != (len(c.Servers) == 1 && c.Servers[0] == "b-1") {
			t.Errorf("%s: %+v", lineOf(c), p)
		}
		if o := b.Refused(c, p); unstarted && (o.Passed || o.Why != "pod b-1 on n1 does not run: ImagePullBackOff" ||
			o.Command != "kubectl weft why weft-check-x/b-1") {
			t.Errorf("%s: %+v", lineOf(c), o)
		}
	}
}

func TestSkip(t *testing.T) {
	b := bedOf(2)
	b.Skip = Groups()
	if n := len(b.Matrix()) + len(b.Denied()) + len(b.Allowed()) + len(b.Directions()); n != 0 {
		t.Errorf("%d cells of skipped groups", n)
	}
}

func TestJudge(t *testing.T) {
	cell := bedOf(2).Denied()[0]
	open := cell
	open.Blocked = false
	anyone := open
	anyone.Servers = nil
	for _, test := range []struct {
		cell   Cell
		result Result
		passed bool
		why    string
	}{
		{open, Result{Server: "b-0", Attempts: 1}, true, ""},
		{open, Result{Server: "b-1", Attempts: 1}, false, `"b-1" answered`},
		{open, Result{Error: "connection refused", Attempts: 1}, false, "connection refused"},
		{open, Result{Error: "no answer within 2s", Attempts: 5}, false, "no answer within 2s, in 5 attempts"},
		{cell, Result{Error: "no answer within 2s"}, true, ""},
		{cell, Result{Server: "b-0"}, false, "b-0 answered, and the NetworkPolicy must stop the packet"},
		{anyone, Result{}, true, ""},
	} {
		if o := test.cell.Judge(test.result); o.Passed != test.passed || o.Why != test.why {
			t.Errorf("%+v: passed %t, %q; want %t, %q", test.result, o.Passed, o.Why, test.passed, test.why)
		}
	}
}

// report is a report with one of everything.
func report() Report {
	b := bedOf(2)
	r := NewReport(b.Namespace)
	r.Nodes, r.Families, r.Seconds = []string{"n0", "n1"}, []string{"IPv4", "IPv6"}, 21.4
	for _, c := range b.Matrix() {
		switch {
		case c.Group == PodToPod && c.Sender.Node == "n0" && !c.V6:
			r.Add(c.Judge(Result{Server: c.Servers[0], Attempts: 1, Took: 3 * time.Millisecond}))
		case c.Group == MTU && c.Sender.Node == "n0" && !c.V6:
			o := c.Judge(Result{Server: c.Servers[0], Size: 1400, MTU: 1400, Attempts: 1, Took: time.Millisecond})
			if c.Servers[0] == "a-1" {
				o = c.Judge(Result{Size: 1300, MTU: 1400, Attempts: 3,
					Error: "packets of more than 1300 bytes do not arrive, and the link's MTU is 1400"})
				o.Command, o.Verdict = "kubectl weft trace "+strings.Join(c.Trace, " "), "allowed"
			}
			r.Add(o)
		}
	}
	r.Add(b.Denied()[0].Judge(Result{Server: "b-0", Attempts: 1}))
	r.Notes = append(r.Notes, "node n2 was not tested: it is not ready")
	return r
}

func TestReport(t *testing.T) {
	golden(t, "report.txt", report().Text())
	text, err := report().JUnit()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "junit.xml", string(text))
	var read suites
	if err := xml.Unmarshal(text, &read); err != nil || read.Tests != 7 || read.Failures != 2 {
		t.Errorf("%d tests, %d failures, error %v; want 7 and 2", read.Tests, read.Failures, err)
	}
}

func TestReportOfFlows(t *testing.T) {
	b := bedOf(2)
	r := NewReport(b.Namespace)
	r.Nodes, r.Families, r.Seconds = []string{"n0", "n1"}, []string{"IPv4", "IPv6"}, 605
	for i, c := range b.Directions() {
		s := FlowState{To: c.Probe.To, Sent: 6000, Gap: 120 * time.Millisecond}
		switch i {
		case 1:
			s.LostThere, s.LostBack, s.Gap, s.GapAt = 7, 2, 900*time.Millisecond, time.Unix(1900000000, 0)
		case 2:
			s = FlowState{Error: "network is unreachable"}
		}
		r.AddFlow(c.Flow(s))
	}
	golden(t, "flows.txt", r.Text())
	text, err := r.JUnit()
	if err != nil || strings.Count(string(text), "<failure") != 2 || r.Failed != 2 {
		t.Errorf("%d failed, error %v:\n%s", r.Failed, err, text)
	}
}

// The servers' counts correct what the sender assumes. A server that was restarted has counted less.
func TestSettle(t *testing.T) {
	for _, test := range []struct {
		state       FlowState
		received    int64
		there, back int64
	}{
		{FlowState{Sent: 10, LostThere: 10}, 10, 0, 10},
		{FlowState{Sent: 10, LostThere: 10}, 0, 10, 0},
		{FlowState{Sent: 10, Answered: 6, LostThere: 4}, 7, 3, 1},
		{FlowState{Sent: 10, Answered: 6, LostThere: 1, LostBack: 3}, 2, 1, 3},
		{FlowState{Sent: 10, Answered: 10}, 12, 0, 0},
	} {
		if got := test.state.Settle(test.received); got.LostThere != test.there || got.LostBack != test.back {
			t.Errorf("%+v of which %d arrived: %d lost there, %d back; want %d and %d", test.state, test.received, got.LostThere, got.LostBack,
				test.there, test.back)
		}
	}
}

// The pods satisfy the Pod Security level of their namespace; TestCheckConnectivity runs them.
func TestObjects(t *testing.T) {
	p := NewPod("weft-check-x", SenderLabel, 3, "n3", "weft:dev")
	if p.Name != "a-3" || p.Spec.NodeName != "n3" || p.Spec.Containers[0].ImagePullPolicy != "Never" {
		t.Errorf("pod %+v", p)
	}
	now := time.Unix(1900000000, 0)
	n := NewNamespace("weft-check-x", now)
	if Ended(n, now) || !Ended(n, now.Add(time.Second)) {
		t.Error("the end of a check is not its time")
	}
	if n.Annotations = nil; !Ended(n, now) {
		t.Error("a namespace without a time does not end")
	}
	services := NewServices("weft-check-x")
	if got := NodePortsOf(services[0]); len(got) != 2 || services[1].Spec.ClusterIP != "None" {
		t.Errorf("services %+v", services)
	}
}
