package policy

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/trigger"
	"github.com/weft-network/weft/pkg/unit"
)

// Selectors are those that policies use at present. A pod's unit names the groups and sets of all that select it, so that nobody else has to
// know the pods of a group; a new one is made when the units of all pods that it selects name it.
type Selectors struct {
	// Triggers asks for what a unit is made from, by the kind of unit.
	Triggers map[string]*trigger.Trigger

	loading sync.Mutex

	mu       sync.Mutex
	loaded   bool   // the policies of the start are here
	atStart  uint64 // the version then
	begun    bool   // every pod of the start has been looked at since
	version  uint64 // counts the selectors that came
	uses     map[unit.Key]*use
	index    index
	awaiting map[types.NamespacedName]map[unit.Key]struct{} // pod -> groups and sets that wait for it
	users    map[unit.Key]map[unit.Key]topology.PodSelector // policy -> what it uses
	named    namedPorts
}

// use is a group or set of a selector.
type use struct {
	selector topology.PodSelector
	users    map[unit.Key]struct{}
	since    uint64
	listed   bool // who is awaited is known
	awaited  int  // pods
	applied  bool // the group or set was made with all of them
}

// NewSelectors returns those of no policy.
func NewSelectors(triggers map[string]*trigger.Trigger) *Selectors {
	return &Selectors{Triggers: triggers, uses: map[unit.Key]*use{}, index: index{}, awaiting: map[types.NamespacedName]map[unit.Key]struct{}{},
		users: map[unit.Key]map[unit.Key]topology.PodSelector{}, named: newNamedPorts()}
}

// Pods lists the pods that a selector selects.
type Pods func(ctx context.Context, selector topology.PodSelector) ([]types.NamespacedName, error)

// Use adds what a policy uses, and asks for the pods of what nobody used before. What it used and uses no longer stays until Drop.
func (s *Selectors) Use(ctx context.Context, policy unit.Key, want map[unit.Key]topology.PodSelector, pods Pods) error {
	for _, key := range s.add(policy, want) {
		found, err := pods(ctx, want[key])
		if err != nil {
			return err // the next attempt lists them
		}
		s.await(key, found)
	}
	return nil
}

// add returns what has to be listed: what is new, and what an attempt before left unlisted.
func (s *Selectors) add(policy unit.Key, want map[unit.Key]topology.PodSelector) (unlisted []unit.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users[policy] == nil {
		s.users[policy] = map[unit.Key]topology.PodSelector{}
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		s.users[policy][key] = want[key]
		if s.uses[key] == nil {
			s.version++
			s.uses[key] = &use{selector: want[key], users: map[unit.Key]struct{}{}, since: s.version}
			s.index.add(key, want[key])
		}
		s.uses[key].users[policy] = struct{}{}
		if s.begun && !s.uses[key].listed {
			unlisted = append(unlisted, key)
		}
	}
	return unlisted
}

// await asks for pods; the group or set waits for them.
func (s *Selectors) await(key unit.Key, pods []types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	use := s.uses[key]
	if use == nil || use.listed {
		return
	}
	use.listed, use.awaited = true, len(pods)
	if len(pods) == 0 {
		s.ask(key)
	}
	for _, pod := range pods {
		if s.awaiting[pod] == nil {
			s.awaiting[pod] = map[unit.Key]struct{}{}
		}
		s.awaiting[pod][key] = struct{}{}
		s.Triggers[topology.KindPod].Enqueue(pod)
	}
}

// Drop takes leave of what a policy used and does not want any more. It returns what nobody uses now: the units of its pods are better made
// anew, before somebody uses it again.
func (s *Selectors) Drop(policy unit.Key, want map[unit.Key]topology.PodSelector) (unused []topology.PodSelector) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.users[policy] {
		if _, wanted := want[key]; wanted {
			continue
		}
		delete(s.users[policy], key)
		use := s.uses[key]
		if delete(use.users, policy); len(use.users) == 0 {
			unused = append(unused, use.selector)
			s.forget(key, use)
		}
	}
	if len(s.users[policy]) == 0 {
		delete(s.users, policy)
	}
	return unused
}

func (s *Selectors) forget(key unit.Key, use *use) {
	delete(s.uses, key)
	s.index.remove(key, use.selector)
	if use.awaited > 0 {
		for pod, keys := range s.awaiting {
			if delete(keys, key); len(keys) == 0 {
				delete(s.awaiting, pod)
			}
		}
	}
	s.ask(key)
}

// state is what a group or set is in.
type state int

const (
	unused state = iota
	waiting
	ready
)

func (s *Selectors) state(key unit.Key) state {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch use := s.uses[key]; {
	case use == nil:
		return unused
	case !use.listed || use.awaited > 0:
		return waiting
	}
	return ready
}

// made notes that a group or set was made with all its pods, and asks for the policies that waited for it.
func (s *Selectors) made(key unit.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	use := s.uses[key]
	if use == nil || use.applied || !use.listed || use.awaited > 0 { // somebody else's by now
		return
	}
	use.applied = true
	for policy := range use.users {
		s.ask(policy)
	}
}

// Made reports whether groups and sets are there, with all their pods. Where not, their coming asks for the policies that use them.
func (s *Selectors) Made(keys map[unit.Key]topology.PodSelector) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range keys {
		if use := s.uses[key]; use == nil || !use.applied {
			return false
		}
	}
	return true
}

// Read notes the named ports that a policy has read of pods: who gives other numbers has it read anew.
func (s *Selectors) Read(policy unit.Key, ports []*heldPort) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.named.set(policy, ports)
}

// Of lists the groups and sets that select a pod, sorted.
func (s *Selectors) Of(pod topology.SelectedPod) (keys []unit.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index.each(pod, func(key unit.Key) {
		if s.uses[key].selector.Matches(pod) {
			keys = append(keys, key)
		}
	})
	slices.Sort(keys)
	s.reread(pod)
	return keys
}

// Gone notes that a pod is not selected any more, whatever its labels say.
func (s *Selectors) Gone(pod types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reread(topology.SelectedPod{Namespace: pod.Namespace, Name: pod.Name})
}

func (s *Selectors) reread(pod topology.SelectedPod) {
	for _, policy := range s.named.look(pod) {
		s.ask(policy)
	}
}

// Version counts the selectors that came.
func (s *Selectors) Version() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Looked notes that a pod's unit names all selectors of a version, or that there is no such unit.
func (s *Selectors) Looked(pod types.NamespacedName, version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.awaiting[pod] {
		use := s.uses[key]
		if use.since > version {
			continue
		}
		delete(s.awaiting[pod], key)
		if use.awaited--; use.awaited == 0 {
			s.ask(key)
		}
	}
	if len(s.awaiting[pod]) == 0 {
		delete(s.awaiting, pod)
	}
}

// Load is told once of all policies of the start, before any pod is looked at and before any group or set is said to be unused.
func (s *Selectors) Load(ctx context.Context, load func(context.Context) error) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	if s.loaded {
		return nil
	}
	if err := load(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loaded, s.atStart = true, s.version
	return nil
}

// Begin says that every pod of the start has been looked at since Load: the units of all of them name what was used then.
func (s *Selectors) Begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = true
	for key, use := range s.uses {
		if use.since <= s.atStart {
			use.listed = true
			s.ask(key)
		}
	}
	for policy := range s.users { // to list the pods of what came since, and to take leave of those that went
		s.ask(policy)
	}
}

func (s *Selectors) ask(key unit.Key) { s.Triggers[key.Kind()].Enqueue(trigger.NameOf(key)) }

// Fork returns a copy that asks others.
func (s *Selectors) Fork(triggers map[string]*trigger.Trigger) *Selectors {
	s.mu.Lock()
	defer s.mu.Unlock()
	fork := NewSelectors(triggers)
	fork.loaded, fork.atStart, fork.begun, fork.version = s.loaded, s.atStart, s.begun, s.version
	for key, u := range s.uses {
		same := *u
		same.users = maps.Clone(u.users)
		fork.uses[key] = &same
		fork.index.add(key, u.selector)
	}
	for pod, keys := range s.awaiting {
		fork.awaiting[pod] = maps.Clone(keys)
	}
	for policy, keys := range s.users {
		fork.users[policy] = maps.Clone(keys)
	}
	fork.named = s.named.clone()
	return fork
}
