package clusternetwork

import (
	"fmt"
	"strings"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/health"
)

const relaysObject = "DaemonSet/weft-relay"

// relayProblems lists the problems of the relays of all southbound databases. Without the relays of a zone, the rest of the network
// works. A zone whose databases have no node needs no relays yet.
func relayProblems(f statusInput) []networkv1alpha1.Problem {
	found := problemsOfRelays(f.relays, f.wanted, relaysObject, "", networkv1alpha1.StateUnavailable)
	for _, wanted := range f.wantedZones {
		for _, z := range f.zones {
			if z.Name == wanted.Name && z.Node != "" {
				found = append(found, problemsOfRelays(z.Relays, wanted.Databases.Relays.Count, relaysObject+"-zone-"+string(z.Name),
					" of zone "+string(z.Name), networkv1alpha1.StateDegraded)...)
			}
		}
	}
	return found
}

// problemsOfRelays lists the problems of the relays of one southbound database. wanted is their number in the spec, of names their zone,
// like " of zone east". lost is the state without any relay.
func problemsOfRelays(relays []networkv1alpha1.RelayStatus, wanted int32, object, of string, lost networkv1alpha1.AreaState) (
	found []networkv1alpha1.Problem) {
	add := func(state networkv1alpha1.AreaState, reason, about, format string, args ...any) {
		found = append(found, health.New(networkv1alpha1.AreaDatabases, state, reason, about, fmt.Sprintf(format, args...)))
	}
	in := map[networkv1alpha1.RelayState][]string{}
	for _, r := range relays {
		in[r.State] = append(in[r.State], r.Node)
	}
	ready, away, starting := in[networkv1alpha1.RelayReady], in[networkv1alpha1.RelayUnavailable], in[networkv1alpha1.RelayStarting]
	switch {
	case len(away) > 0 && len(ready) == 0:
		add(lost, networkv1alpha1.ReasonRelaysLost, object,
			"no relay of the southbound database%s works, so its nodes see no changes; unavailable relays: %s. Existing pods keep their network",
			of, strings.Join(away, ", "))
	default:
		for _, r := range relays {
			if r.State == networkv1alpha1.RelayUnavailable {
				add(networkv1alpha1.StateDegraded, networkv1alpha1.ReasonRelayUnavailable, "Node/"+r.Node,
					"the relay of the southbound database%s on node %s is unavailable; nodes use the others (%s): %s", of, r.Node,
					strings.Join(ready, ", "), r.Message)
			}
		}
	}
	if len(starting) > 0 {
		add(networkv1alpha1.StateProgressing, networkv1alpha1.ReasonRelaysStarting, object,
			"relays of the southbound database%s are starting: %s", of, strings.Join(starting, ", "))
	}
	if placed := len(ready) + len(away) + len(starting); placed < int(wanted) {
		add(networkv1alpha1.StateDegraded, networkv1alpha1.ReasonRelaysUnplaced, object,
			"%d of %d relays of the southbound database%s have a node", placed, wanted, of)
	}
	return found
}
