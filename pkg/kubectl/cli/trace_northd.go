package cli

import (
	"context"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/health"
	"github.com/weft-network/weft/pkg/trace"
)

// northdNotes says whether ovn-northd has stopped to compute flows. The status of the ClusterNetwork says so only after
// a change to which ovn-northd did not respond. It reads one member of the databases after the other until one is active.
func (t *remoteTracer) northdNotes(ctx context.Context) ([]string, error) {
	var states []trace.NorthdState
	for i := range t.members {
		at := *t
		at.pod = &t.members[i]
		answer, err := at.Run(ctx, trace.Request{Northd: true})
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			states = append(states, trace.NorthdState{Why: err.Error()})
		case answer.Northd == nil:
			return nil, nil // an older version, which does not say
		case answer.Northd.Status == "active":
			return northdNote(t.of, []trace.NorthdState{*answer.Northd}), nil
		default:
			states = append(states, *answer.Northd)
		}
	}
	return northdNote(t.of, states), nil
}

// northdNote is the note about the states of ovn-northd, or nil if the flows are as new as the northbound database. of names the part
// of the network.
func northdNote(of string, states []trace.NorthdState) []string {
	why := trace.Stale(states)
	if why == "" {
		return nil
	}
	p := health.New(networkv1alpha1.AreaControlPlane, networkv1alpha1.StateUnavailable, networkv1alpha1.ReasonNorthdSilent, "",
		why+", so newer changes are neither in the dataplane nor in this answer")
	return linesOf(of, []networkv1alpha1.Problem{p})
}
