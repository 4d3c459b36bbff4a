package selection

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// Units are the units of the database, whose memberships follow from selectors (ovndb.Engine). Its methods do not wait.
type Units interface {
	// Join adds memberships to units. A unit that is applied later replaces them.
	Join(keys []unit.Key, members func(unit.Unit) []unit.Membership)
	// Regroup adds memberships to units and removes others, all in one transaction.
	Regroup(changes []unit.Regrouping)
	// End makes units empty, and removes the memberships in their rows from all units.
	End(keys []unit.Key, rows []unit.Ref)
}

// Selectors are the selectors that policies use. A pod's unit names the groups and sets of all selectors that match
// it, so that nothing else needs the list of a group's pods. A new selector joins the units of its pods, without a
// reconciliation of the pods. Its group or set is created when all these units name it.
type Selectors struct {
	// Triggers enqueues policies, groups, sets and pods for their reconcilers.
	Triggers *trigger.Set
	// Units must be set before the first Use.
	Units Units

	loading sync.Mutex
	load    func(context.Context) error // reads all policies

	mu       sync.Mutex
	loaded   bool   // Load has succeeded
	atStart  uint64 // the version then
	begun    bool   // since then, every existing pod was reconciled
	version  uint64 // counts the added selectors
	uses     map[unit.Key]*use
	index    index
	listing  map[unit.Key]struct{}                       // groups and sets whose pods are being listed
	underway map[unit.Key]uint64                         // unit of a pod that is being reconciled -> the version when that began
	awaiting map[unit.Key]map[unit.Key]struct{}          // unit of a pod -> groups and sets that wait for it
	users    map[unit.Key]map[unit.Key]facts.PodSelector // policy -> its selectors
	named    namedPorts
	// relabels holds the changes of namespaces' labels whose pods are being listed.
	relabels map[*relabel]struct{}
}

// use is the state of a group or set of a selector.
type use struct {
	selector facts.PodSelector
	users    map[unit.Key]struct{}
	since    uint64
	listed   bool // the pods were listed, and have joined unless they are awaited
	// decided holds the units of pods whose reconciliation began while the pods were being listed. They name the
	// selector if it matches, and may have seen a later state of the pod than the list.
	decided map[unit.Key]struct{}
	awaited int  // number of pods
	applied bool // the group or set was created with all of them
}

// NewSelectors returns an empty set of selectors.
func NewSelectors(triggers *trigger.Set) *Selectors {
	return &Selectors{Triggers: triggers, uses: map[unit.Key]*use{}, index: index{},
		listing: map[unit.Key]struct{}{}, underway: map[unit.Key]uint64{}, awaiting: map[unit.Key]map[unit.Key]struct{}{},
		users: map[unit.Key]map[unit.Key]facts.PodSelector{}, named: newNamedPorts(), relabels: map[*relabel]struct{}{}}
}

// Pods lists the pods that a selector selects.
type Pods func(ctx context.Context, selector facts.PodSelector) ([]types.NamespacedName, error)

// Use adds the selectors of a policy. Selectors that no policy used before join the units of their pods. Earlier
// selectors of the policy stay until Drop.
func (s *Selectors) Use(ctx context.Context, policy unit.Key, want map[unit.Key]facts.PodSelector, pods Pods) error {
	unlisted := s.add(policy, want)
	for _, key := range slices.Sorted(maps.Keys(unlisted)) {
		found, err := pods(ctx, want[key])
		if err != nil {
			return err // the next attempt lists them
		}
		s.join(key, unlisted[key], found)
	}
	return nil
}

// add returns the selectors whose pods must be listed, with the version that added each: new selectors, and selectors
// of a failed attempt.
func (s *Selectors) add(policy unit.Key, want map[unit.Key]facts.PodSelector) (unlisted map[unit.Key]uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users[policy] == nil {
		s.users[policy] = map[unit.Key]facts.PodSelector{}
	}
	for key, selector := range want {
		s.users[policy][key] = selector
		if s.uses[key] == nil {
			s.version++
			s.uses[key] = &use{selector: selector, users: map[unit.Key]struct{}{}, since: s.version}
			s.index.add(key, selector)
		}
		use := s.uses[key]
		use.users[policy] = struct{}{}
		if !s.begun || use.listed {
			continue
		}
		if use.decided == nil {
			use.decided, s.listing[key] = map[unit.Key]struct{}{}, struct{}{}
		}
		if unlisted == nil {
			unlisted = map[unit.Key]uint64{}
		}
		unlisted[key] = use.since
	}
	return unlisted
}

// join adds the memberships of a group or set to the units of the listed pods. A unit whose pod is being reconciled is
// about to be replaced, so the group or set waits for it, and is enqueued then. The list is of the selector that a
// version added.
func (s *Selectors) join(key unit.Key, since uint64, pods []types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	use := s.uses[key]
	if use == nil || use.since != since || use.listed {
		return
	}
	settled := make([]unit.Key, 0, len(pods))
	for _, pod := range pods {
		selected := topology.SelectedUnit(use.selector, pod.Namespace, pod.Name)
		began, underway := s.underway[selected]
		_, decided := use.decided[selected]
		switch {
		case underway:
			use.awaited++
			add(s.awaiting, selected, key)
			if began < since { // its unit may not name the selector
				s.enqueue(selected)
			}
		case !decided:
			settled = append(settled, selected)
		}
	}
	use.listed, use.decided = true, nil
	delete(s.listing, key)
	s.Units.Join(settled, topology.SelectedMembers(use.selector, key))
}

// Drop removes the selectors that a policy no longer uses, and ends the groups and sets that no policy uses now.
func (s *Selectors) Drop(policy unit.Key, want map[unit.Key]facts.PodSelector) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var unused []unit.Key
	for key := range s.users[policy] {
		if _, wanted := want[key]; wanted {
			continue
		}
		delete(s.users[policy], key)
		use := s.uses[key]
		if delete(use.users, policy); len(use.users) == 0 {
			s.forget(key, use)
			unused = append(unused, key)
		}
	}
	if len(s.users[policy]) == 0 {
		delete(s.users, policy)
	}
	s.end(unused)
}

// end ends groups and sets in one transaction. A pod's unit that is applied meanwhile may name them still. That is
// harmless, because it names them only as long as they would match.
func (s *Selectors) end(unused []unit.Key) {
	var rows []unit.Ref
	for _, key := range unused {
		rows = append(rows, topology.SelectedRows(key)...)
	}
	if len(unused) > 0 {
		s.Units.End(unused, rows)
	}
}

func (s *Selectors) forget(key unit.Key, use *use) {
	delete(s.uses, key)
	delete(s.listing, key)
	s.index.remove(key, use.selector)
	if use.awaited > 0 {
		for pod, keys := range s.awaiting {
			if delete(keys, key); len(keys) == 0 {
				delete(s.awaiting, pod)
			}
		}
	}
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

// User returns one of the policies that use a selector, the first by name, or "" if it is unused.
func (s *Selectors) User(key unit.Key) (user unit.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if use := s.uses[key]; use != nil {
		for policy := range use.users {
			if user == "" || policy < user {
				user = policy
			}
		}
	}
	return user
}

// End ends a group or set, and reports whether it is unused.
func (s *Selectors) End(key unit.Key) (unused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.uses[key] != nil {
		return false
	}
	s.end([]unit.Key{key})
	return true
}

// Complete records that groups and sets were created with all their pods, on behalf of a policy or of none. It
// enqueues the other policies that waited for them.
func (s *Selectors) Complete(keys []unit.Key, by unit.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting := map[unit.Key]struct{}{}
	for _, key := range keys {
		use := s.uses[key]
		if use == nil || use.applied || !use.listed || use.awaited > 0 { // it has changed meanwhile
			continue
		}
		use.applied = true
		maps.Copy(waiting, use.users)
	}
	delete(waiting, by)
	for policy := range waiting { // it may no longer want another selector that would have to be created too
		s.enqueue(policy)
	}
}

// Unmade lists the groups and sets that do not exist with all their pods yet, sorted. ready is false if one of them
// waits for a pod, which enqueues the policies that use it.
func (s *Selectors) Unmade(keys map[unit.Key]facts.PodSelector) (unmade []unit.Key, ready bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ready = true
	for key := range keys {
		use := s.uses[key]
		if use == nil || !use.applied {
			unmade = append(unmade, key)
		}
		ready = ready && use != nil && use.listed && use.awaited == 0
	}
	slices.Sort(unmade)
	return unmade, ready
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

// Started records that the reconciliation of a pod begins. Its unit will name the selectors added so far. Reconciled
// must follow.
func (s *Selectors) Started(pod unit.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.underway[pod] = s.version
	for key := range s.listing {
		s.uses[key].decided[pod] = struct{}{}
	}
	for r := range s.relabels {
		r.decided[pod] = struct{}{}
	}
}

// Reconciled records that the reconciliation of a pod has ended. Its unit names all selectors added before Started, or
// the pod has no such unit.
func (s *Selectors) Reconciled(pod unit.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	began := s.underway[pod]
	delete(s.underway, pod)
	for key := range s.awaiting[pod] {
		use := s.uses[key]
		if use.since > began {
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
	for _, use := range s.uses {
		if use.since <= s.atStart {
			use.listed = true
		}
	}
	for policy := range s.users { // creates its groups, lists the pods of selectors added since, and drops removed selectors
		s.enqueue(policy)
	}
}

func (s *Selectors) enqueue(key unit.Key) { s.Triggers.EnqueueUnit(key) }

// Fork returns a copy that enqueues in other triggers and joins other units.
func (s *Selectors) Fork(triggers *trigger.Set, units Units) *Selectors {
	s.mu.Lock()
	defer s.mu.Unlock()
	fork := NewSelectors(triggers)
	fork.Units = units
	fork.loaded, fork.atStart, fork.begun, fork.version = s.loaded, s.atStart, s.begun, s.version
	for key, u := range s.uses {
		same := *u
		same.users, same.decided = maps.Clone(u.users), nil
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
