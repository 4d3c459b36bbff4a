package demo

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func pod(name, node string, addresses ...string) Pod {
	p := Pod{Name: name, Node: node}
	for _, a := range addresses {
		p.Addresses = append(p.Addresses, netip.MustParseAddr(a))
	}
	return p
}

// three returns two pods on one node and one on another, dual stack.
func three() []Pod {
	return []Pod{
		pod("web-a", "n1", "10.244.1.3", "fd00::1:3"),
		pod("web-b", "n1", "10.244.1.4", "fd00::1:4"),
		pod("web-c", "n2", "10.244.2.3", "fd00::2:3"),
	}
}

// answered returns the output of a pod's probe without errors: the n-th try takes n tenths of a millisecond.
func answered(from Pod, mine []Result) []outcome {
	var list []outcome
	for i, r := range mine {
		o := outcome{Name: r.Address, Kind: r.Kind, OK: true, RTTms: float64(i+1) / 10, Tries: 1}
		if !from.address(r.Family).IsValid() {
			o = outcome{Name: r.Address, Kind: r.Kind, Tries: 3, Error: "network is unreachable"}
		} else if r.Kind == HTTP {
			o.Answer = &answer{Pod: r.To, Client: netip.AddrPortFrom(from.address(r.Family), 40000).String()}
		}
		list = append(list, o)
	}
	return list
}

// good returns the results of pods that all reach each other.
func good(pods []Pod) []Result {
	results := expected(pods)
	for _, from := range pods {
		mine := resultsFrom(results, from)
		fill(from, mine, answered(from, mine), nil)
	}
	return results
}

func TestEveryPodCallsEveryOtherInBothFamiliesAndKinds(t *testing.T) {
	results := expected(three())
	if want := 3 * 2 * 2 * 2; len(results) != want {
		t.Fatalf("%d pairs, not %d", len(results), want)
	}
	seen := map[Result]bool{}
	for _, r := range results {
		if r.From == r.To {
			t.Errorf("%s calls itself", r.From)
		}
		if r.SameNode != (r.FromNode == r.ToNode) {
			t.Errorf("%+v: sameNode is wrong", r)
		}
		if seen[r] {
			t.Errorf("duplicate %+v", r)
		}
		seen[r] = true
	}
}

func TestUnansweredCallIsAFailure(t *testing.T) {
	r := newReport(expected(three()))
	if r.Pairs != 24 || r.OK != 0 || len(r.failed()) != 24 {
		t.Fatalf("pairs %d, ok %d, failed %d", r.Pairs, r.OK, len(r.failed()))
	}
	for _, f := range r.failed() {
		if f.Error != "not called" {
			t.Errorf("%s to %s: error %q", f.From, f.To, f.Error)
		}
	}
}

func TestPodWithoutAFamilyIsAFailure(t *testing.T) {
	pods := three()
	pods[2].Addresses = pods[2].Addresses[:1] // no IPv6
	r := newReport(good(pods))
	byError := map[string]int{}
	for _, f := range r.failed() {
		if f.Family != IPv6 || f.To != "web-c" && f.From != "web-c" {
			t.Errorf("failed: %+v", f)
		}
		byError[f.Error]++
	}
	// Two other pods call it in two kinds, and it calls them.
	if diff := cmp.Diff(map[string]int{"the pod has no address of this family": 4, "network is unreachable": 4}, byError); diff != "" {
		t.Error(diff)
	}
}

func TestReportIsWholeOnDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "_out", "demo.json")
	want := newReport(good(three()))
	for range 2 { // a second run replaces the file
		if err := want.write(path); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got Report
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got.Pairs != 24 || got.OK != 24 {
		t.Errorf("pairs %d, ok %d, not 24", got.Pairs, got.OK)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the report: %v, %v", entries, err)
	}
}

func TestFieldsOfAResult(t *testing.T) {
	text, err := json.Marshal(newReport(good(three())[:1]))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"pairs":1,"ok":1,"results":[{"from":"web-a","to":"web-b","fromNode":"n1","toNode":"n1",` +
		`"sameNode":true,"family":"IPv4","kind":"ping",` +
		`"address":"10.244.1.4","ok":true,"rttMs":0.1,"tries":1}]}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestJudgement(t *testing.T) {
	caller := netip.MustParseAddr("10.244.1.3")
	for name, c := range map[string]struct {
		kind    Kind
		outcome outcome
		want    Result
	}{
		"ping":     {Ping, outcome{OK: true, RTTms: 1, Tries: 2}, Result{OK: true, RTTms: 1, Tries: 2}},
		"no reply": {Ping, outcome{Tries: 3, Error: "no reply"}, Result{Tries: 3, Error: "no reply"}},
		"http": {HTTP, outcome{OK: true, RTTms: 1, Tries: 1, Answer: &answer{"web-b", "10.244.1.3:5"}},
			Result{OK: true, RTTms: 1, Tries: 1}},
		"http, mapped": {HTTP, outcome{OK: true, RTTms: 1, Tries: 1,
			Answer: &answer{"web-b", "[::ffff:10.244.1.3]:5"}}, Result{OK: true, RTTms: 1, Tries: 1}},
		"another pod": {HTTP, outcome{OK: true, RTTms: 1, Tries: 1, Answer: &answer{"web-c", "10.244.1.3:5"}},
			Result{Tries: 1, Error: `pod "web-c" answered`}},
		"translated": {HTTP, outcome{OK: true, RTTms: 1, Tries: 1, Answer: &answer{"web-b", "10.244.1.2:5"}},
			Result{Tries: 1, Error: "it saw the caller as 10.244.1.2:5, not as 10.244.1.3"}},
		"some other server": {HTTP, outcome{OK: true, RTTms: 1, Tries: 1}, Result{Tries: 1, Error: "the answer is not the probe's"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Result{To: "web-b", Kind: c.kind, Error: "not called"}
			got.take(c.outcome, caller)
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(Result{}, "To", "Kind")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestProbeThatDidNotRunFailsItsPodAlone(t *testing.T) {
	pods := three()
	results := expected(pods)
	for i, from := range pods {
		mine := resultsFrom(results, from)
		if i == 1 {
			fill(from, mine, nil, os.ErrDeadlineExceeded)
			continue
		}
		fill(from, mine, answered(from, mine), nil)
	}
	for _, r := range results {
		if r.OK != (r.From != "web-b") {
			t.Errorf("%+v", r)
		}
	}
}

func TestTargetsAreWhatTheProbeReads(t *testing.T) {
	mine := resultsFrom(expected(three()), three()[2])
	want := []target{
		{"10.244.1.3", "10.244.1.3", "http://10.244.1.3:8080/"}, {"fd00::1:3", "fd00::1:3", "http://[fd00::1:3]:8080/"},
		{"10.244.1.4", "10.244.1.4", "http://10.244.1.4:8080/"}, {"fd00::1:4", "fd00::1:4", "http://[fd00::1:4]:8080/"},
	}
	if diff := cmp.Diff(want, targets(mine)); diff != "" {
		t.Error(diff)
	}
}
