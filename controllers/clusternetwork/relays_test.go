package clusternetwork

import (
	"slices"
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
		found := relayProblems(statusInput{relays: relays, wanted: c.wanted})
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

// TestRelaysOfZonesInProblems checks that a zone without relays degrades the network only, and that a zone without a node lacks none.
func TestRelaysOfZonesInProblems(t *testing.T) {
	f := statusInput{}
	for name, node := range map[networkv1alpha1.ZoneName]string{"east": "e1", "west": ""} {
		f.wantedZones = append(f.wantedZones, networkv1alpha1.Zone{Name: name, Databases: networkv1alpha1.Databases{
			Relays: networkv1alpha1.Relays{Count: 2}}})
		f.zones = append(f.zones, networkv1alpha1.ZoneStatus{Name: name, Node: node})
	}
	i := slices.IndexFunc(f.zones, func(z networkv1alpha1.ZoneStatus) bool { return z.Name == "east" })
	f.zones[i].Relays = []networkv1alpha1.RelayStatus{{Node: "e2", State: networkv1alpha1.RelayUnavailable}}
	var have []string
	for _, p := range relayProblems(f) {
		have = append(have, string(p.State)+" "+p.Reason+" "+p.Object+": "+p.Message)
	}
	want := []string{
		"Degraded RelaysLost DaemonSet/weft-relay-zone-east: no relay of the southbound database of zone east works, so its nodes see no " +
			"changes; unavailable relays: e2. Existing pods keep their network",
		"Degraded RelaysUnplaced DaemonSet/weft-relay-zone-east: 1 of 2 relays of the southbound database of zone east have a node",
	}
	if !slices.Equal(have, want) {
		t.Errorf("problems\n%s, want\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
}
