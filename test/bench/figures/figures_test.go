package figures

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestPercentilesAreTimesThatOccurred(t *testing.T) {
	var times []time.Duration
	for i := 200; i > 0; i-- {
		times = append(times, time.Duration(i)*time.Millisecond)
	}
	if got, want := SpreadOf(times), (Spread{N: 200, P50: 100, P90: 180, P99: 198, Max: 200}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := SpreadOf([]time.Duration{1500 * time.Microsecond}),
		(Spread{N: 1, P50: 1.5, P90: 1.5, P99: 1.5, Max: 1.5}); got != want {
		t.Errorf("one time: got %+v, want %+v", got, want)
	}
	if got := SpreadOf(nil); got != (Spread{}) {
		t.Errorf("no time: got %+v", got)
	}
}

func TestExponent(t *testing.T) {
	sizes := []float64{500, 2000, 10000}
	for _, want := range []float64{0, 0.1, 1, 2, -0.5} {
		var costs []float64
		for _, size := range sizes {
			costs = append(costs, 3*math.Pow(size, want))
		}
		if got, ok := Exponent(sizes, costs); !ok || math.Abs(got-want) > 1e-9 {
			t.Errorf("got %v, %v; want %v", got, ok, want)
		}
	}
	for name, costs := range map[string][]float64{"nothing": {0, 1, 2}} {
		if got, ok := Exponent(sizes, costs); ok {
			t.Errorf("a cost of %s has the exponent %v", name, got)
		}
	}
	if got, ok := Exponent(sizes[:1], []float64{1}); ok {
		t.Errorf("one size has the exponent %v", got)
	}
}

func TestSizes(t *testing.T) {
	got, err := ParseSizes("100/2000  500/10000")
	if err != nil || len(got) != 2 || got[0] != (Size{Nodes: 100, Pods: 2000}) || got[1].String() != "500/10000" {
		t.Errorf("got %v, %v", got, err)
	}
	for _, wrong := range []string{"", "100", "100/", "0/5", "a/5", "5/-1"} {
		if got, err := ParseSizes(wrong); err == nil {
			t.Errorf("%q is %v", wrong, got)
		}
	}
}

func resultOf(wired, latency, transactions float64) Result {
	return Result{Runs: []Run{{Size: Size{Nodes: 10, Pods: 100}, Controller: "weft", Storm: Storm{WiredPerSecond: wired},
		Events: map[string]Event{"pod add": {Latency: Spread{P50: latency}}}, Restart: Restart{Cost: Cost{Transactions: transactions}}}}}
}

func TestComparison(t *testing.T) {
	verdicts := func(a, b Result) map[string]Verdict {
		found := map[string]Verdict{}
		for _, d := range Compare(a, b) {
			if d.Judged != Same {
				found[d.Name] = d.Judged
			}
		}
		return found
	}
	base := resultOf(100, 4, 0)
	for name, test := range map[string]struct {
		b    Result
		want map[string]Verdict
	}{
		"noise":     {resultOf(85, 4.7, 0), map[string]Verdict{}},
		"slower":    {resultOf(70, 4, 0), map[string]Verdict{"storm, pods in NB/s": Worse}},
		"faster":    {resultOf(130, 3, 0), map[string]Verdict{"storm, pods in NB/s": Better, "pod add p50 ms": Better}},
		"one write": {resultOf(100, 4, 1), map[string]Verdict{"restart, NB transactions": Worse}},
	} {
		if got := verdicts(base, test.b); len(got) != len(test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		} else {
			for metric, want := range test.want {
				if got[metric] != want {
					t.Errorf("%s: %s is %q, want %q", name, metric, got[metric], want)
				}
			}
		}
	}
	var out strings.Builder
	worse, err := WriteComparison(&out, Compare(base, resultOf(50, 8, 1)))
	if err != nil || worse != 3 || !strings.Contains(out.String(), "WORSE") {
		t.Errorf("%d are worse, %v:\n%s", worse, err, out.String())
	}
}

func TestTableShowsGrowth(t *testing.T) {
	small, large := resultOf(100, 4, 0), resultOf(100, 40, 0)
	large.Runs[0].Size = Size{Nodes: 100, Pods: 1000}
	both := Result{Runs: append(small.Runs, large.Runs...)}
	var out strings.Builder
	if err := both.WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, "pod add p50 ms") && strings.Contains(line, "+1.00") {
			return
		}
	}
	t.Errorf("the table does not show that pod add grows with the number of pods:\n%s", out.String())
}
