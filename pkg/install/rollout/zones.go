package rollout

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/weft-network/weft/pkg/install/programs"
	"github.com/weft-network/weft/pkg/install/render"
)

// zonePods are the pods of a zone's workloads.
type zonePods struct{ centrals, operators []pod }

// addToZone indexes a pod of a zone. It reports whether the pod is of a zone.
func (v *view) addToZone(object *corev1.Pod) bool {
	workload := "weft-" + object.Labels[ComponentLabel]
	if zone, ok := strings.CutPrefix(workload, render.Central+"-"); ok {
		of := v.zonePods[zone]
		of.centrals = append(of.centrals, podOf(object))
		v.zonePods[zone] = of
		return true
	}
	if zone, ok := strings.CutPrefix(workload, render.Operator+"-"); ok {
		of := v.zonePods[zone]
		of.operators = append(of.operators, podOf(object))
		v.zonePods[zone] = of
		return true
	}
	return false
}

// zones returns the zones whose workloads are wanted, in the order of the spec.
func (v *view) zones() (found []render.Zone) {
	for _, z := range v.Operand.Place.Zones {
		if v.Wanted[render.CentralOf(z.Name)] != nil {
			found = append(found, z)
		}
	}
	return found
}

// isOfZone reports whether a wanted workload belongs to a zone.
func (v *view) isOfZone(workload string) bool {
	return v.Wanted[workload] != nil && v.Wanted[workload].GetLabels()[render.LabelZone] != ""
}

// centralIn returns the pod of a zone's databases that determines the next step.
func (v *view) centralIn(z render.Zone) pod {
	return v.centralOf(render.CentralOf(z.Name), v.zonePods[z.Name].centrals, z.Place)
}

// centralsOf returns the pods of the databases that a node uses.
func (v *view) centralsOf(n *node) []pod {
	if n.network != nil && n.network.Spec.Zone != "" {
		return v.zonePods[string(n.network.Spec.Zone)].centrals
	}
	return v.centrals
}

// troubledZones repairs the databases of zones that are not ready before any node, because they cannot provide the flows of
// the zone's nodes.
func (v *view) troubledZones(s *Step) *wait {
	for _, z := range v.zones() {
		if p := v.centralIn(z); p.disturbed() || !p.ready {
			if w := v.replaceCentral(s, render.CentralOf(z.Name), p); w != nil {
				return w
			}
		}
	}
	return nil
}

// zoneDatabases replaces the pods of the zones' databases, one zone after the other.
func (v *view) zoneDatabases(s *Step) *wait {
	for _, z := range v.zones() {
		if w := v.replaceCentral(s, render.CentralOf(z.Name), v.centralIn(z)); w != nil {
			return w
		}
	}
	return nil
}

// zoneOperators replaces the zones' operators, one zone after the other.
func (v *view) zoneOperators(s *Step) *wait {
	for _, z := range v.zones() {
		if w := v.replaceOperator(s, render.OperatorOf(z.Name), v.zonePods[z.Name].operators); w != nil {
			return w
		}
	}
	return nil
}

// newerThanWanted reports whether any databases run a newer OVN than the wanted one.
func (v *view) newerThanWanted() bool {
	wanted := v.Operand.Programs[programs.Northd].Version
	newer, _ := programs.Newer(v.central.northd, wanted)
	for _, z := range v.zones() {
		one, _ := programs.Newer(v.centralIn(z).northd, wanted)
		newer = newer || one
	}
	return newer
}

// repairZones replaces pods of the zones' databases that differ from the wanted ones and have the wanted image. It replaces pods that
// are not ready, or on another node than the wanted one, at once. It replaces other pods only while all databases are ready, one at a
// time.
func (v *view) repairZones(s *Step) {
	calm := len(s.Replace) == 0 && !v.central.disturbed() && v.central.ready
	for _, z := range v.zones() {
		p := v.centralIn(z)
		calm = calm && !p.disturbed() && p.ready
	}
	for _, z := range v.zones() {
		p := v.centralIn(z)
		switch moved := !slices.Contains(z.Place.Nodes(), p.node); {
		case !v.repairable(render.CentralOf(z.Name), p):
		case !p.ready || moved:
			s.Replace = append(s.Replace, p.name)
		case calm:
			s.Replace = append(s.Replace, p.name)
			calm = false
		}
	}
}
