package kind

import (
	"maps"
	"slices"
	"sync"

	"github.com/weft-network/weft/pkg/unit"
)

// SetUsers records which units of one reconciler name sets that another makes. The zero value is empty.
type SetUsers struct {
	mu     sync.Mutex
	byUser map[unit.Key][]unit.Key
	bySet  map[unit.Key]map[unit.Key]struct{} // set -> users
}

// Add records that a unit names further sets. It returns the sets that it did not name before.
func (u *SetUsers) Add(user unit.Key, sets []unit.Key) (added []unit.Key) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.byUser == nil {
		u.byUser, u.bySet = map[unit.Key][]unit.Key{}, map[unit.Key]map[unit.Key]struct{}{}
	}
	for _, set := range sets {
		if slices.Contains(u.byUser[user], set) {
			continue
		}
		if u.bySet[set] == nil {
			u.bySet[set] = map[unit.Key]struct{}{}
		}
		u.bySet[set][user] = struct{}{}
		u.byUser[user] = append(u.byUser[user], set)
		added = append(added, set)
	}
	return added
}

// Keep records that a unit names no other sets than these any more. It returns the others.
func (u *SetUsers) Keep(user unit.Key, sets []unit.Key) (dropped []unit.Key) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, set := range u.byUser[user] {
		if slices.Contains(sets, set) {
			continue
		}
		if delete(u.bySet[set], user); len(u.bySet[set]) == 0 {
			delete(u.bySet, set)
		}
		dropped = append(dropped, set)
	}
	kept := slices.DeleteFunc(slices.Clone(u.byUser[user]), func(set unit.Key) bool { return slices.Contains(dropped, set) })
	if len(kept) > 0 {
		u.byUser[user] = kept
	} else {
		delete(u.byUser, user)
	}
	return dropped
}

// copyTo copies the record to another, empty one.
func (u *SetUsers) copyTo(other *SetUsers) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for user, sets := range u.byUser {
		other.Add(user, sets)
	}
}

// Sets lists the sets that units name, sorted.
func (u *SetUsers) Sets() []unit.Key {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Sorted(maps.Keys(u.bySet))
}

// Of lists the units that name a set, sorted.
func (u *SetUsers) Of(set unit.Key) []unit.Key {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Sorted(maps.Keys(u.bySet[set]))
}
