package clusternetwork

import (
	"fmt"
	"slices"
	"strings"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/health"
)

// zoneProblems lists the zones whose databases or operator do not work. A zone that no node has entered is starting.
// A zone without a state is starting too, unless OVN's databases run elsewhere.
func zoneProblems(wanted []networkv1alpha1.Zone, zones []networkv1alpha1.ZoneStatus, networks []networkv1alpha1.NodeNetwork) (
	found []networkv1alpha1.Problem) {
	for _, z := range wanted {
		if !slices.ContainsFunc(zones, func(s networkv1alpha1.ZoneStatus) bool { return s.Name == z.Name }) {
			zones = append(slices.Clone(zones), networkv1alpha1.ZoneStatus{Name: z.Name, Message: "weft-operands has not reported it"})
		}
	}
	nodes := map[networkv1alpha1.ZoneName][]string{}
	for i := range networks {
		zone := networks[i].Spec.Zone
		nodes[zone] = append(nodes[zone], networks[i].Name)
	}
	for _, z := range zones {
		object, in := zoneCentral(z.Name), nodes[z.Name]
		switch {
		case z.Ready:
		case len(in) == 0:
			found = append(found, health.New(networkv1alpha1.AreaDatabases, networkv1alpha1.StateProgressing,
				networkv1alpha1.ReasonZoneStarting, object,
				fmt.Sprintf("zone %s is starting, and its nodes stay where they are: %s", z.Name, z.Message)))
		default:
			found = append(found, health.New(networkv1alpha1.AreaDatabases, networkv1alpha1.StateDegraded,
				networkv1alpha1.ReasonZoneUnavailable, object,
				fmt.Sprintf("zone %s is not served: %s. Existing pods of its %s keep their network; new pods and changes wait there, "+
					"and the other zones go on", z.Name, z.Message, nodesText(in))))
		}
	}
	return found
}

// zoneCentral returns the object of a zone's databases.
func zoneCentral(zone networkv1alpha1.ZoneName) string { return centralObject + "-" + string(zone) }

// nodesText returns the number of nodes and the first of their names. The cache has no order.
func nodesText(names []string) string {
	slices.Sort(names)
	if len(names) <= namedNodes {
		return fmt.Sprintf("%d nodes (%s)", len(names), strings.Join(names, ", "))
	}
	return fmt.Sprintf("%d nodes (%s, ...)", len(names), strings.Join(names[:namedNodes], ", "))
}
