package trace

import "testing"

// One active ovn-northd that is not behind is enough.
func TestStale(t *testing.T) {
	active, standby := NorthdState{Status: "active"}, NorthdState{Status: "standby"}
	for _, test := range []struct {
		states []NorthdState
		want   string
	}{
		{nil, ""},
		{[]NorthdState{active}, ""},
		{[]NorthdState{standby, {Why: "no socket"}, active}, ""},
		{[]NorthdState{{Status: "active", Behind: 3}}, "ovn-northd has not computed the last changes yet (3 requests behind)"},
		{[]NorthdState{{Status: "paused"}}, "ovn-northd is paused"},
		{[]NorthdState{standby, {Why: "silence"}, standby}, "ovn-northd does not respond (silence); ovn-northd is standby"},
	} {
		if got := Stale(test.states); got != test.want {
			t.Errorf("%+v: %q, want %q", test.states, got, test.want)
		}
	}
}
