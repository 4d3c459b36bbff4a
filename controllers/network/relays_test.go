package network

import (
	"strings"
	"testing"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

func TestRelaysInProblems(t *testing.T) {
	const starting, ready, away, leaving = networkv1alpha1.RelayStarting, networkv1alpha1.RelayReady,
		networkv1alpha1.RelayUnavailable, networkv1alpha1.RelayLeaving
	for name, c := range map[string]struct {
		wanted int32
		states []networkv1alpha1.RelayState
		want   string // state reason object, and words of the message
	}{
		"no relays":       {0, nil, ""},
		"all work":        {2, []networkv1alpha1.RelayState{ready, ready}, ""},
		"one leaves":      {1, []networkv1alpha1.RelayState{ready, leaving}, ""},
		"the last leaves": {0, []networkv1alpha1.RelayState{leaving}, ""},
		"one is away":     {2, []networkv1alpha1.RelayState{ready, away}, "Degraded RelayUnavailable Node/b: the others (a): gone"},
		"all are away":    {2, []networkv1alpha1.RelayState{away, away}, "Unavailable RelaysLost DaemonSet/weft-relay: a, b"},
		"the only is away": {1, []networkv1alpha1.RelayState{away, leaving},
			"Unavailable RelaysLost DaemonSet/weft-relay: a"},
		"one starts": {2, []networkv1alpha1.RelayState{ready, starting}, "Progressing RelaysStarting DaemonSet/weft-relay: starting: b"},
		"one node":   {2, []networkv1alpha1.RelayState{ready}, "Degraded RelaysUnplaced DaemonSet/weft-relay: 1 of 2 relays"},
	} {
		var relays []networkv1alpha1.RelayStatus
		for i, state := range c.states {
			relays = append(relays, networkv1alpha1.RelayStatus{Node: string(rune('a' + i)), State: state, Message: "gone"})
		}
		found := relayProblems(relays, c.wanted)
		if c.want == "" {
			if len(found) > 0 {
				t.Errorf("%s: %+v", name, found)
			}
			continue
		}
		if len(found) != 1 {
			t.Errorf("%s: %+v", name, found)
			continue
		}
		head, words, _ := strings.Cut(c.want, ": ")
		p := found[0]
		if have := string(p.State) + " " + p.Reason + " " + p.Object; have != head ||
			!strings.Contains(p.Message, words) || p.NextStep == "" || p.Area != networkv1alpha1.AreaDatabases {
			t.Errorf("%s: %s: %s (%s)", name, have, p.Message, p.NextStep)
		}
	}
}
