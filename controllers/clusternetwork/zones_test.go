package clusternetwork

import (
	"strings"
	"testing"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

func TestZonesInProblems(t *testing.T) {
	for name, c := range map[string]struct {
		zone  networkv1alpha1.ZoneStatus
		nodes string   // zones of nodes, separated by blanks
		want  []string // state, reason, object and words of the message
	}{
		"ready":    {networkv1alpha1.ZoneStatus{Name: "east", Ready: true}, "east", nil},
		"starting": {networkv1alpha1.ZoneStatus{Name: "east", Message: "no pod"}, "west", []string{"Progressing", "ZoneStarting", "no pod"}},
		"lost": {networkv1alpha1.ZoneStatus{Name: "east", Message: "pod gone"}, "west east east",
			[]string{"Degraded", "ZoneUnavailable", "pod gone", "2 nodes (n1, n2)"}},
		"many nodes": {networkv1alpha1.ZoneStatus{Name: "east"}, "east east east east east east",
			[]string{"Degraded", "ZoneUnavailable", "6 nodes (n0, n1, n2, n3, n4, ...)"}},
	} {
		var networks []networkv1alpha1.NodeNetwork
		for i, zone := range strings.Fields(c.nodes) {
			var nn networkv1alpha1.NodeNetwork
			nn.Name, nn.Spec.Zone = "n"+string(rune('0'+i)), networkv1alpha1.ZoneName(zone)
			networks = append(networks, nn)
		}
		found := zoneProblems(nil, []networkv1alpha1.ZoneStatus{c.zone}, networks)
		if c.want == nil {
			if len(found) > 0 {
				t.Errorf("%s: %+v", name, found)
			}
			continue
		}
		if len(found) != 1 {
			t.Errorf("%s: %+v", name, found)
			continue
		}
		p := found[0]
		text := strings.Join([]string{string(p.State), p.Reason, p.Object, p.Message}, " ")
		for _, words := range append(c.want, "StatefulSet/weft-central-east") {
			if !strings.Contains(text, words) || p.NextStep == "" {
				t.Errorf("%s: %q is not in %s (%s)", name, words, text, p.NextStep)
			}
		}
	}
}
