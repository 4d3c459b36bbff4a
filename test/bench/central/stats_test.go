package central

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStats(t *testing.T) {
	got,
		err := parseStats(
		"Node: NB_nb_global\n- recompute:            1\n- compute:             12\n- cancel:              " +
			"0\nNode: northd\n- recompute:            3\n- compute:  0\n- abort: 2\n")
	want := stats{"NB_nb_global": {1, 12, 0}, "northd": {3, 0, 2}}
	if err != nil || !cmp.Equal(got, want, cmp.AllowUnexported(nodeStats{})) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	if got.recomputed() != "northd 3" {
		t.Errorf("recomputed: %q", got.recomputed())
	}
	for _, text := range []string{"", "command not found", "- recompute: 1", "Node: x\n- recompute: many"} {
		if _, err := parseStats(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestSizes(t *testing.T) {
	want := []Size{{62, 2500, 500, 2}, {125, 5000, 1000, 2}, {250, 10000, 2000, 2}}
	if got := Sizes(Size{250, 10000, 2000, 2}); !cmp.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
