package selection

import (
	"maps"
	"slices"

	"github.com/weft-network/weft/pkg/facts"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weft-network/weft/pkg/unit"
)

// namedPorts records which pods give which numbers to the named ports that policies read. A policy is read again when
// a pod adds or removes a number, and not for every pod.
type namedPorts struct {
	policies map[unit.Key][]*Port
	byPort   map[facts.NamedPort]map[unit.Key]struct{}      // name and protocol -> policies
	byPod    map[types.NamespacedName]map[unit.Key]struct{} // pod -> policies to which it gives a number
}

// Port is a named port of the pods of a selector, as a policy reads it.
type Port struct {
	selector facts.PodSelector
	port     facts.NamedPort // without a number
	holders  map[types.NamespacedName][]uint16
	counts   map[uint16]int
}

func newNamedPorts() namedPorts {
	return namedPorts{policies: map[unit.Key][]*Port{}, byPort: map[facts.NamedPort]map[unit.Key]struct{}{},
		byPod: map[types.NamespacedName]map[unit.Key]struct{}{}}
}

// NewPort returns a named port without numbers.
func NewPort(selector facts.PodSelector, port facts.NamedPort) *Port {
	return &Port{selector: selector, port: port, holders: map[types.NamespacedName][]uint16{}, counts: map[uint16]int{}}
}

// Hold records the numbers that a pod gives, and reports whether the set of all numbers has changed.
func (h *Port) Hold(pod types.NamespacedName, numbers []uint16) (changed bool) {
	for _, n := range h.holders[pod] {
		if h.counts[n]--; h.counts[n] == 0 {
			delete(h.counts, n)
			changed = !slices.Contains(numbers, n) || changed
		}
	}
	had := h.holders[pod]
	delete(h.holders, pod)
	if len(numbers) > 0 {
		h.holders[pod] = numbers
	}
	for _, n := range numbers {
		if h.counts[n]++; h.counts[n] == 1 && !slices.Contains(had, n) {
			changed = true
		}
	}
	return changed
}

// Numbers returns the numbers that pods give to the port, sorted.
func (h *Port) Numbers() []uint16 { return slices.Sorted(maps.Keys(h.counts)) }

// set replaces the named ports of a policy.
func (p namedPorts) set(policy unit.Key, ports []*Port) {
	for _, port := range p.policies[policy] {
		remove(p.byPort, port.port, policy)
		for pod := range port.holders {
			remove(p.byPod, pod, policy)
		}
	}
	delete(p.policies, policy)
	if len(ports) > 0 {
		p.policies[policy] = ports
	}
	for _, port := range ports {
		add(p.byPort, port.port, policy)
		for pod := range port.holders {
			add(p.byPod, pod, policy)
		}
	}
}

// observe records the numbers that a pod gives, and returns the policies that must be read again.
func (p namedPorts) observe(pod facts.SelectedPod) (differ []unit.Key) {
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	concerned := maps.Clone(p.byPod[name])
	for _, port := range pod.Ports {
		port.Number = 0
		for policy := range p.byPort[port] {
			if concerned == nil {
				concerned = map[unit.Key]struct{}{}
			}
			concerned[policy] = struct{}{}
		}
	}
	for policy := range concerned {
		changed, holds := false, false
		for _, port := range p.policies[policy] {
			numbers := facts.NumbersOf(port.selector, port.port, []facts.SelectedPod{pod})
			changed = port.Hold(name, numbers) || changed
			holds = holds || len(numbers) > 0
		}
		if remove(p.byPod, name, policy); holds {
			add(p.byPod, name, policy)
		}
		if changed {
			differ = append(differ, policy)
		}
	}
	return differ
}

func (p namedPorts) clone() namedPorts {
	c := newNamedPorts()
	for policy, ports := range p.policies {
		var copies []*Port
		for _, port := range ports {
			copies = append(copies, &Port{port.selector, port.port, maps.Clone(port.holders), maps.Clone(port.counts)})
		}
		c.set(policy, copies)
	}
	return c
}

func add[K, V comparable](to map[K]map[V]struct{}, key K, value V) {
	if to[key] == nil {
		to[key] = map[V]struct{}{}
	}
	to[key][value] = struct{}{}
}

func remove[K, V comparable](from map[K]map[V]struct{}, key K, value V) {
	if delete(from[key], value); len(from[key]) == 0 {
		delete(from, key)
	}
}
