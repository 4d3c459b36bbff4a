// Package history records the latest changes of a database in memory: what each transaction of Weft changed and why,
// and which changes other programs made. The record is bounded in entries and bytes.
package history

import (
	"slices"
	"sync"
	"time"

	"github.com/weft-network/weft/pkg/unit"
)

// Bounds of a Recorder. MaxBytes bounds the encoded entries together.
const (
	MaxEntries = 10_000
	MaxBytes   = 4 << 20
	// maxEntry bounds one entry. Its further changes are only counted.
	maxEntry = 32 << 10
	// maxValue bounds the text of one value.
	maxValue = 256
)

// By is who made a change.
type By string

// The values of By.
const (
	ByWeft By = "Weft"
	// ByOther is another program, or a person. OVSDB does not say which.
	ByOther By = "Other"
)

// Entry is one transaction of Weft, or the foreign changes that were found together.
type Entry struct {
	// Time is when Weft sent the transaction, or when it found the foreign changes.
	Time time.Time `json:"time"`
	By   By        `json:"by"`
	// State says what became of the changes: Committed, Unknown if the reply of the database was lost, and for
	// foreign changes Repaired, Standing, Collision or Seen.
	State string `json:"state"`
	// Causes are the units that the transaction wrote, and why. Foreign changes have none.
	Causes []Cause `json:"causes,omitempty"`
	// Changes are sorted as the transaction applies them.
	Changes []Change `json:"changes"`
	// Omitted counts the changes that the entry had no room for.
	Omitted int `json:"omitted,omitempty"`
}

// The states of entries that are no drift.
const (
	StateCommitted = "Committed"
	StateUnknown   = "Unknown"
	// StateSeen is the state of rows that never belonged to Weft.
	StateSeen = "Seen"
)

// Cause is why a transaction wrote a unit.
type Cause struct {
	Unit unit.Key `json:"unit"`
	// Object is the object whose reconciliation wanted the unit last, as KIND/NAMESPACE/NAME. It is empty for a unit
	// that ended because nothing uses it any more.
	Object unit.Key `json:"object,omitempty"`
	// Reconciler is the name of the controller.
	Reconciler string `json:"reconciler,omitempty"`
	// Repair means that the transaction reverted a foreign change.
	Repair bool `json:"repair,omitempty"`
}

// Change is what happened to one row, or to one element of a column that several units share.
type Change struct {
	// Owner is the unit that wanted the change, or that owns the row that somebody else changed. It is empty for rows
	// that never belonged to Weft.
	Owner unit.Key `json:"owner,omitempty"`
	// Holder is the unit that owns the row, if that is not Owner.
	Holder unit.Key `json:"holder,omitempty"`
	// Op is insert, update, delete, add or remove.
	Op    string `json:"op"`
	Table string `json:"table"`
	UUID  string `json:"uuid"`
	// Name is the row's name, or its match in tables without names.
	Name    string   `json:"name,omitempty"`
	Columns []Column `json:"columns,omitempty"`
}

// Column is a column of a changed row. Of an updated set or map it has only the elements that differ. Long values are
// cut.
type Column struct {
	Column string `json:"column"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// Recorder keeps the latest entries. Its methods may be called concurrently.
type Recorder struct {
	mu      sync.Mutex
	since   time.Time
	entries []string // encoded, oldest first
	bytes   int
}

// Begin sets the time from which on changes are recorded, unless it is set.
func (r *Recorder) Begin(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since.IsZero() {
		r.since = now
	}
}

// Add records a draft with a state. A draft without changes is not recorded.
func (r *Recorder) Add(d *Draft, state string) {
	if d.changes == 0 {
		return
	}
	entry := d.finish(state)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries, r.bytes = append(r.entries, entry), r.bytes+len(entry)
	for len(r.entries) > MaxEntries || r.bytes > MaxBytes {
		oldest := r.entries[0]
		r.entries[0] = "" // the array behind the slice must not keep it
		r.entries, r.bytes = r.entries[1:], r.bytes-len(oldest)
		if at := timeOf(oldest); at.After(r.since) { // later entries are all here
			r.since = at
		}
	}
}

// Since is the time from which on all changes are recorded. It is zero before Begin.
func (r *Recorder) Since() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.since
}

// Latest returns the latest entries with a change that concerns selects, oldest first, without their other changes. A
// limit of 0 returns all.
func (r *Recorder) Latest(limit int, concerns func(Change, Cause) bool) []Entry {
	r.mu.Lock()
	recorded := slices.Clone(r.entries)
	r.mu.Unlock()
	found := []Entry{}
	for i := len(recorded) - 1; i >= 0 && (limit == 0 || len(found) < limit); i-- {
		if e := decode(recorded[i]).only(concerns); len(e.Changes) > 0 {
			found = append(found, e)
		}
	}
	// A foreign change is recorded with its repair's outcome, and is older than the repair.
	slices.SortStableFunc(found, func(a, b Entry) int { return a.Time.Compare(b.Time) })
	return found
}

// only returns the entry with the changes that concerns selects, and their causes.
func (e Entry) only(concerns func(Change, Cause) bool) Entry {
	all, causes := e.Changes, e.Causes
	e.Changes, e.Causes = nil, nil
	for _, c := range all {
		cause, ok := causeOf(c, all, causes)
		if !concerns(c, cause) {
			continue
		}
		e.Changes = append(e.Changes, c)
		if ok && !slices.Contains(e.Causes, cause) {
			e.Causes = append(e.Causes, cause)
		}
	}
	return e
}

// causeOf returns the cause of a change. The transaction that inserts a group also adds the elements of other units,
// because of the group.
func causeOf(c Change, all []Change, causes []Cause) (Cause, bool) {
	for _, owner := range []unit.Key{c.Owner, c.Holder} {
		if i := slices.IndexFunc(causes, func(x Cause) bool { return x.Unit == owner }); i >= 0 {
			return causes[i], true
		}
	}
	if i := slices.IndexFunc(all, func(x Change) bool { return x.Op == "insert" && x.UUID == c.UUID }); i >= 0 && all[i].Owner != c.Owner {
		return causeOf(all[i], nil, causes)
	}
	return Cause{}, false
}
