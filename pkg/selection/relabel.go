package selection

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// relabel is a change of a namespace's labels while its pods are being listed.
type relabel struct {
	groups []unit.Key // groups and sets whose selectors distinguish the labels
	ports  bool       // a named port's selector does
	// settled is false if a unit may name a group or set that this change cannot see: before Begin, or while the pods of a
	// selector are being listed.
	settled bool
	// decided holds the units of pods whose reconciliation began since the change. They read the new labels.
	decided map[unit.Key]struct{}
}

// Relabel makes the units of a namespace's pods join and leave groups and sets after a change of the namespace's
// labels, in one transaction and without a reconciliation of the pods. It reconciles only pods whose reconciliation
// began before the change. The cache must have the new labels already. pods lists the pods of the namespace with their
// labels and the namespace's labels as they are now; Relabel does not call it if no selector distinguishes the labels.
func (s *Selectors) Relabel(
	ctx context.Context, before, after labels.Set, pods func(context.Context) ([]facts.SelectedPod, error),
) error {
	r := s.beginRelabel(before, after)
	if r == nil {
		return nil
	}
	found, err := pods(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.relabels, r)
	if err == nil {
		s.endRelabel(r, found)
	}
	return err
}

// beginRelabel returns nil if no selector in use, and no named port that a policy has read, distinguishes the labels. A
// selector that is added later lists the pods by itself.
func (s *Selectors) beginRelabel(before, after labels.Set) *relabel {
	differ := func(selector facts.PodSelector) bool {
		return selector.Network == "" && selector.Namespace == "" && selector.Namespaces.Matches(before) != selector.Namespaces.Matches(after)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &relabel{settled: s.begun, decided: map[unit.Key]struct{}{}}
	for key, use := range s.uses {
		if differ(use.selector) {
			r.groups = append(r.groups, key)
			r.settled = r.settled && use.listed
		}
	}
	for _, ports := range s.named.policies {
		r.ports = r.ports || slices.ContainsFunc(ports, func(port *Port) bool { return differ(port.selector) })
	}
	if len(r.groups) == 0 && !r.ports {
		return nil
	}
	s.relabels[r] = struct{}{}
	return r
}

// endRelabel regroups the units of the pods, except the units that are about to be replaced, or were replaced since.
func (s *Selectors) endRelabel(r *relabel, pods []facts.SelectedPod) {
	regroupings := map[unit.Key]*unit.Regrouping{}
	for _, pod := range pods {
		key := topology.PodKey(pod.Namespace, pod.Name)
		_, decided := r.decided[key]
		_, underway := s.underway[key]
		switch {
		case decided:
		case underway || !r.settled:
			s.enqueue(key)
		default:
			s.regroup(r, key, pod, regroupings)
		}
	}
	var changes []unit.Regrouping
	for _, key := range slices.Sorted(maps.Keys(regroupings)) {
		changes = append(changes, *regroupings[key])
	}
	s.Units.Regroup(changes)
}

// regroup adds a pod's unit to the regroupings of the changed groups and sets, and updates the named ports.
func (s *Selectors) regroup(r *relabel, pod unit.Key, selected facts.SelectedPod, to map[unit.Key]*unit.Regrouping) {
	for _, group := range r.groups {
		use := s.uses[group]
		if use == nil { // no policy uses it any more
			continue
		}
		if to[group] == nil {
			to[group] = &unit.Regrouping{Members: topology.SelectedMembers(use.selector, group), Rows: topology.SelectedRows(group)}
		}
		if use.selector.Matches(selected) {
			to[group].Join = append(to[group].Join, pod)
		} else {
			to[group].Leave = append(to[group].Leave, pod)
		}
	}
	if r.ports {
		s.reread(selected)
	}
}
