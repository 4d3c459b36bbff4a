package network

import (
	"fmt"
	"strings"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/health"
)

const relaysObject = "DaemonSet/weft-relay"

// relayProblems lists the problems of the southbound database's relays. wanted is their number in the spec.
func relayProblems(relays []networkv1alpha1.RelayStatus, wanted int32) (found []networkv1alpha1.Problem) {
	add := func(state networkv1alpha1.AreaState, reason, object, format string, args ...any) {
		found = append(found, health.New(networkv1alpha1.AreaDatabases, state, reason, object, fmt.Sprintf(format, args...)))
	}
	in := map[networkv1alpha1.RelayState][]string{}
	for _, r := range relays {
		in[r.State] = append(in[r.State], r.Node)
	}
	ready, away, starting := in[networkv1alpha1.RelayReady], in[networkv1alpha1.RelayUnavailable], in[networkv1alpha1.RelayStarting]
	switch {
	case len(away) > 0 && len(ready) == 0:
		add(networkv1alpha1.StateUnavailable, networkv1alpha1.ReasonRelaysLost, relaysObject,
			"no relay of the southbound database works, so no node sees a change; unavailable relays: %s. Existing pods keep their network",
			strings.Join(away, ", "))
	default:
		for _, r := range relays {
			if r.State == networkv1alpha1.RelayUnavailable {
				add(networkv1alpha1.StateDegraded, networkv1alpha1.ReasonRelayUnavailable, "Node/"+r.Node,
					"the southbound database's relay on node %s is unavailable; nodes use the others (%s): %s", r.Node,
					strings.Join(ready, ", "), r.Message)
			}
		}
	}
	if len(starting) > 0 {
		add(networkv1alpha1.StateProgressing, networkv1alpha1.ReasonRelaysStarting, relaysObject,
			"relays of the southbound database are starting: %s", strings.Join(starting, ", "))
	}
	if placed := len(ready) + len(away) + len(starting); placed < int(wanted) {
		add(networkv1alpha1.StateDegraded, networkv1alpha1.ReasonRelaysUnplaced, relaysObject,
			"%d of %d relays of the southbound database have a node", placed, wanted)
	}
	return found
}
