package demo

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func printed(color bool, print func(Screen)) string {
	var out strings.Builder
	print(Screen{Writer: &out, Color: color})
	return out.String()
}

func TestTrafficOnScreen(t *testing.T) {
	pods := three()
	results := good(pods)
	for i, r := range results { // web-a needs a second try to reach web-c, and does not reach it by HTTP over IPv6
		if r.From == "web-a" && r.To == "web-c" {
			results[i].Tries = 2
			if r.Family == IPv6 && r.Kind == HTTP {
				results[i] = Result{From: r.From, To: r.To, FromNode: r.FromNode, ToNode: r.ToNode, Family: r.Family,
					Kind: r.Kind, Address: r.Address, Tries: 3, Error: "no answer"}
			}
		}
	}
	got := printed(false, func(s Screen) { printTraffic(s, pods, newReport(results)) })
	want := `
Who reaches whom: checks that succeeded, of ping and HTTP over IPv4 and IPv6

   FROM \ TO  NODE    1    2    3
1  web-a      n1      -  4/4  3/4
2  web-b      n1    4/4    -  4/4
3  web-c      n2    4/4  4/4    -

Pair by pair, in milliseconds

FROM   NODE  TO     NODE  PATH        IPv4 PING   HTTP  IPv6 PING     HTTP  OK
web-a  n1    web-b  n1    same node       0.10   0.20       0.30     0.40   yes
             web-c  n2    cross node      0.50*  0.60*      0.70*  failed   NO
web-b  n1    web-a  n1    same node       0.10   0.20       0.30     0.40   yes
             web-c  n2    cross node      0.50   0.60       0.70     0.80   yes
web-c  n2    web-a  n1    cross node      0.10   0.20       0.30     0.40   yes
             web-b  n1    cross node      0.50   0.60       0.70     0.80   yes

* answered only at a retry: the first packets to another node can be lost until its tunnel is resolved

Summary

PATH        KIND  PAIRS  OK  MEDIAN ms  MAX ms
same node   ping      4   4       0.30    0.30
same node   http      4   4       0.40    0.40
cross node  ping      8   8       0.50    0.70
cross node  http      8   7       0.60    0.80

23 of 24 pairs ok (a pair: from, to, family, ping or HTTP)
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFailuresOnScreen(t *testing.T) {
	results := good(three())
	results[5].OK, results[5].Tries, results[5].Error = false, 3, "no answer"
	got := printed(false, func(s Screen) { printFailures(s, "weft", "_out/demo.json", newReport(results)) })
	for _, want := range []string{
		"web-a  n1    web-c  n2    IPv4 http  10.244.2.3  3      no answer\n",
		"\nalias weft-lab='go run ./test/lab/cmd/weft-lab'\n",
		"weft-lab exec n1 -- ovs-vsctl show ",
		"weft-lab exec central -- ovn-sbctl show ",
		"weft-lab exec n2 -- sh -c 'ovs-appctl -t /run/openvswitch/ovs-vswitchd.$(cat " +
			"/run/openvswitch/ovs-vswitchd.pid).ctl dpctl/dump-flows' ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "more: see") {
		t.Errorf("want one failure:\n%s", got)
	}
}

func TestManyFailuresAreCut(t *testing.T) {
	report := newReport(expected(three()))
	got := printed(false, func(s Screen) { printFailures(s, "other", "_out/demo.json", report) })
	if shown := strings.Count(got, "not called"); shown != failuresShown {
		t.Errorf("%d failures shown", shown)
	}
	for _, want := range []string{"... and 4 more: see _out/demo.json\n", "export WEFT_LAB=other; alias weft-lab="} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q:\n%s", want, got)
		}
	}
}

func TestColorsKeepColumnsAligned(t *testing.T) {
	rows := [][]cell{{{text: "a", style: red}, {text: "10", right: true, style: green}, {text: "x"}},
		{{text: "ñandú"}, {text: "5", right: true}, {text: "y"}}, {{text: "short"}}}
	if got, want := printed(false, func(s Screen) { s.table(rows) }), "a      10  x\nñandú   5  y\nshort\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got, want := printed(true, func(s Screen) {
		s.table(rows)
	}), "\x1b[31ma\x1b[0m      \x1b[32m10\x1b[0m  x\nñandú   5  y\nshort\n"; got != want {
		t.Errorf("got\n%qwant\n%q", got, want)
	}
}

func TestNoEscapesWithoutATerminal(t *testing.T) {
	pods := three()
	got := printed(false, func(s Screen) {
		printTraffic(s, pods, newReport(expected(pods)))
		printFailures(s, "weft", "f", newReport(expected(pods)))
		printNext(s, "weft", pods, Topology{})
	})
	if strings.Contains(got, "\x1b") {
		t.Errorf("%q", got)
	}
}
