package rollout

import (
	"cmp"
	"fmt"
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/install/render"
)

// ofRelays is a workload of relays.
type ofRelays struct {
	name  string
	nodes int // the number of nodes that must have a pod
}

// relayWorkloads returns the wanted workloads of the relays in the order of replacement, the relays of zones last.
func (v *view) relayWorkloads() (all []ofRelays) {
	add := func(zone string, place render.Place) {
		for _, of := range []ofRelays{{render.SourcesOf(zone), len(place.Members)}, {render.RelaysOf(zone), len(place.Relays)}} {
			if v.Wanted[of.name] != nil {
				all = append(all, of)
			}
		}
	}
	add("", v.Operand.Place)
	for _, z := range v.zones() {
		add(z.Name, z.Place)
	}
	return all
}

// relaysStage replaces the pods of the relays, one after the other. The nodes of a relay use their other relay
// meanwhile. The relays follow the databases, whose schema they take over.
func (v *view) relaysStage(s *Step) *wait {
	for _, of := range v.relayWorkloads() {
		name := of.name
		w := &wait{stage: networkv1alpha1.StageDatabases, object: "DaemonSet/" + name}
		if !v.release(s, name) {
			w.message = newTemplate
			return w
		}
		p := v.worst(name)
		switch have := len(v.relays[name]); {
		case have < of.nodes:
			w.message = fmt.Sprintf("%d of %d pods exist", have, of.nodes)
		case p.ending:
			w.message, w.deadline = fmt.Sprintf("pod %s is terminating", p.name), v.deadline(p.since)
		case v.old(name, p):
			s.Replace = append(s.Replace, p.name)
			w.message = fmt.Sprintf("pod %s is being replaced", p.name)
		case !p.ready:
			w.message, w.deadline = because(fmt.Sprintf("pod %s is not ready", p.name), p.trouble), v.deadline(p.since)
		default:
			continue
		}
		return w
	}
	return nil
}

// worst returns the pod that determines the next step: while one is terminating or not ready, no other is replaced. Pods
// on nodes that are lost do not count.
func (v *view) worst(name string) pod {
	var alive []pod
	for _, p := range v.relays[name] {
		if slices.ContainsFunc(v.nodes, func(n node) bool { return n.name == p.node && n.lost.IsZero() }) {
			alive = append(alive, p)
		}
	}
	if len(alive) == 0 {
		return pod{ready: true}
	}
	return slices.MinFunc(alive, func(a, b pod) int {
		return cmp.Or(cmp.Compare(v.trouble(name, a), v.trouble(name, b)), cmp.Compare(a.name, b.name))
	})
}

// repairRelays replaces a pod of the relays that differs from the wanted one and has its image.
func (v *view) repairRelays(s *Step) {
	for _, of := range v.relayWorkloads() {
		p := v.worst(of.name)
		if v.repairable(of.name, p) && len(v.relays[of.name]) >= of.nodes {
			s.Replace = append(s.Replace, p.name)
		}
	}
}
