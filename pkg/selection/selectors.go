package selection

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/trigger"
	"github.com/weft-network/weft/pkg/unit"
)

// Selectors are the selectors that policies use. A pod's unit names the groups and sets of all selectors that match
// it, so that nothing else needs the list of a group's pods. A group or set is created when the units of all its pods
// name it.
type Selectors struct {
	// Triggers enqueues policies, groups, sets and pods for their reconcilers.
	Triggers *trigger.Set

	loading sync.Mutex
	load    func(context.Context) error // reads all policies

	mu       sync.Mutex
	loaded   bool   // Load has succeeded
	atStart  uint64 // the version then
	begun    bool   // since then, every existing pod was reconciled
	version  uint64 // counts the added selectors
	uses     map[unit.Key]*use
	index    index
	awaiting map[unit.Key]map[unit.Key]struct{}          // unit of a pod -> groups and sets that wait for it
	users    map[unit.Key]map[unit.Key]facts.PodSelector // policy -> its selectors
	named    namedPorts
}

// use is the state of a group or set of a selector.
type use struct {
	selector facts.PodSelector
	users    map[unit.Key]struct{}
	since    uint64
	listed   bool // the awaited pods were listed
	awaited  int  // number of pods
	applied  bool // the group or set was created with all of them
}

// NewSelectors returns an empty set of selectors.
func NewSelectors(triggers *trigger.Set) *Selectors {
	return &Selectors{Triggers: triggers, uses: map[unit.Key]*use{}, index: index{},
		awaiting: map[unit.Key]map[unit.Key]struct{}{},
		users:    map[unit.Key]map[unit.Key]facts.PodSelector{}, named: newNamedPorts()}
}

// Pods lists the pods that a selector selects.
type Pods func(ctx context.Context, selector facts.PodSelector) ([]types.NamespacedName, error)

// Use adds the selectors of a policy, and enqueues the pods of selectors that no policy used before. Earlier
// selectors of the policy stay until Drop.
func (s *Selectors) Use(ctx context.Context, policy unit.Key, want map[unit.Key]facts.PodSelector, pods Pods) error {
	for _, key := range s.add(policy, want) {
		found, err := pods(ctx, want[key])
		if err != nil {
			return err // the next attempt lists them
		}
		s.await(key, found)
	}
	return nil
}

// add returns the selectors whose pods must be listed: new selectors, and selectors of a failed attempt.
func (s *Selectors) add(policy unit.Key, want map[unit.Key]facts.PodSelector) (unlisted []unit.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users[policy] == nil {
		s.users[policy] = map[unit.Key]facts.PodSelector{}
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

// await enqueues pods for which the group or set waits.
func (s *Selectors) await(key unit.Key, pods []types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	use := s.uses[key]
	if use == nil || use.listed {
		return
	}
	use.listed, use.awaited = true, len(pods)
	if len(pods) == 0 {
		s.enqueue(key)
	}
	for _, pod := range pods {
		selected := topology.SelectedUnit(use.selector, pod.Namespace, pod.Name)
		add(s.awaiting, selected, key)
		s.enqueue(selected)
	}
}

// Drop removes the selectors that a policy no longer uses. It returns the selectors that no policy uses now. The
// units of their pods must be applied again before another policy uses them.
func (s *Selectors) Drop(policy unit.Key, want map[unit.Key]facts.PodSelector) (unused []facts.PodSelector) {
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
	s.enqueue(key)
}

// State is the state of a group or set.
type State int

const (
	// Unused means that no policy uses it.
	Unused State = iota
	// Waiting means that the units of some of its pods do not name it yet.
	Waiting
	// Ready means that it can be created.
	Ready
)

// State returns the state of a group or set.
func (s *Selectors) State(key unit.Key) State {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch use := s.uses[key]; {
	case use == nil:
		return Unused
	case !use.listed || use.awaited > 0:
		return Waiting
	}
	return Ready
}

// Complete records that a group or set was created with all its pods, and enqueues the policies that wait for it.
func (s *Selectors) Complete(key unit.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	use := s.uses[key]
	if use == nil || use.applied || !use.listed || use.awaited > 0 { // it has changed meanwhile
		return
	}
	use.applied = true
	for policy := range use.users {
		s.enqueue(policy)
	}
}

// Made reports whether groups and sets exist with all their pods. Otherwise the last of them enqueues the policies
// that use them.
func (s *Selectors) Made(keys map[unit.Key]facts.PodSelector) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range keys {
		if use := s.uses[key]; use == nil || !use.applied {
			return false
		}
	}
	return true
}

// Read records the named ports that a policy has read from pods. A pod that gives other numbers enqueues the policy.
func (s *Selectors) Read(policy unit.Key, ports []*Port) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.named.set(policy, ports)
}

// Of lists the groups and sets that select a pod's port on a network, sorted.
func (s *Selectors) Of(pod facts.SelectedPod) (keys []unit.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index.each(pod, func(key unit.Key) {
		if s.uses[key].selector.Matches(pod) {
			keys = append(keys, key)
		}
	})
	slices.Sort(keys)
	if pod.Network == "" { // named ports are the pod's, whichever networks it is on
		s.reread(pod)
	}
	return keys
}

// Gone records that a pod is not selected any more, whatever its labels are.
func (s *Selectors) Gone(pod types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reread(facts.SelectedPod{Namespace: pod.Namespace, Name: pod.Name})
}

func (s *Selectors) reread(pod facts.SelectedPod) {
	for _, policy := range s.named.observe(pod) {
		s.enqueue(policy)
	}
}

// Version returns the number of selectors added so far.
func (s *Selectors) Version() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Reconciled records that a unit of a pod names all selectors of a version, or that the pod has no such unit.
func (s *Selectors) Reconciled(pod unit.Key, version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.awaiting[pod] {
		use := s.uses[key]
		if use.since > version {
			continue
		}
		delete(s.awaiting[pod], key)
		if use.awaited--; use.awaited == 0 {
			s.enqueue(key)
		}
	}
	if len(s.awaiting[pod]) == 0 {
		delete(s.awaiting, pod)
	}
}

// LoadFrom sets the function with which Load reads all policies.
func (s *Selectors) LoadFrom(load func(context.Context) error) {
	s.loading.Lock()
	defer s.loading.Unlock()
	s.load = load
}

// Load reads all policies once, with the function given to LoadFrom. It must return before the first pod is
// reconciled, and before a group or set counts as unused. After an error the next call tries again.
func (s *Selectors) Load(ctx context.Context) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	if s.loaded {
		return nil
	}
	if s.load != nil {
		if err := s.load(ctx); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loaded, s.atStart = true, s.version
	return nil
}

// Begin declares that every pod that existed at start was reconciled after Load. The units of all of them name the
// selectors of that time.
func (s *Selectors) Begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = true
	for key, use := range s.uses {
		if use.since <= s.atStart {
			use.listed = true
			s.enqueue(key)
		}
	}
	for policy := range s.users { // lists the pods of selectors added since, and drops removed selectors
		s.enqueue(policy)
	}
}

func (s *Selectors) enqueue(key unit.Key) { s.Triggers.EnqueueUnit(key) }

// Fork returns a copy that enqueues in other triggers.
func (s *Selectors) Fork(triggers *trigger.Set) *Selectors {
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
