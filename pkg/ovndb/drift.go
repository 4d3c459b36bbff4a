package ovndb

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weft-network/weft/pkg/unit"
)

// DriftState is what the engine did about a foreign change.
type DriftState string

// The states.
const (
	// DriftRepaired means that the engine reverted the change.
	DriftRepaired DriftState = "Repaired"
	// DriftStanding means that the engine only reports the change.
	DriftStanding DriftState = "Standing"
	// DriftCollision is a foreign row with the name of one of our rows. The engine never touches it.
	DriftCollision DriftState = "Collision"
)

// maxDrifts bounds the list of a DriftReport.
const maxDrifts = 20

// Drift is a foreign change to a unit's rows or memberships.
type Drift struct {
	Owner unit.Key
	Op    Op // the operation that repairs it; empty for a collision
	Table string
	UUID  string
	Name  string // of the row, if the table has names
	// Column is empty if the change concerns the whole row.
	Column string
	// Want and Have are texts as in Change. For a whole row they are "present" or "absent".
	Want, Have string
	State      DriftState
	Since      time.Time
	Last       time.Time
	Count      int64
}

// DriftReport sums up the foreign changes since the engine was created.
type DriftReport struct {
	// Total counts all changes, including those no longer in the list.
	Total int64
	// Standing counts the changes and collisions that exist now.
	Standing int
	// Latest has the last 20, newest first.
	Latest []Drift
}

// driftID identifies a change that may occur again.
type driftID struct {
	table, uuid, column, element string
}

// driftLog stores all standing changes, and the latest of the others.
type driftLog struct {
	now func() time.Time

	mu     sync.Mutex
	total  int64
	latest []*Drift // newest first
	byID   map[driftID]*Drift
	// of units that are only reported, and of units whose row name a foreign row has
	standing map[unit.Key]map[driftID]struct{}
}

func newDriftLog(now func() time.Time) *driftLog {
	return &driftLog{now: now, byID: map[driftID]*Drift{}, standing: map[unit.Key]map[driftID]struct{}{}}
}

func (l *driftLog) report() DriftReport {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := DriftReport{Total: l.total}
	for _, ids := range l.standing {
		r.Standing += len(ids)
	}
	for _, d := range l.latest {
		r.Latest = append(r.Latest, *d)
	}
	return r
}

// seen records the current changes of one unit and returns the new ones.
func (l *driftLog) seen(owner unit.Key, drifts []Drift) (news []Drift) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.standing[owner]
	delete(l.standing, owner)
	for _, d := range drifts {
		id := idOf(d)
		if d.State != DriftRepaired {
			l.stand(owner, id)
			if _, known := before[id]; known {
				continue
			}
		}
		news = append(news, l.record(id, d))
	}
	for id := range before {
		if _, stands := l.standing[owner][id]; !stands && l.byID[id] != nil {
			l.byID[id].State = DriftRepaired
		}
	}
	return news
}

func idOf(d Drift) driftID {
	id := driftID{table: d.Table, uuid: d.UUID, column: d.Column}
	if d.Op == OpAdd || d.Op == OpRemove {
		id.element = d.Want + d.Have
	}
	return id
}

func (l *driftLog) stand(owner unit.Key, id driftID) {
	if l.standing[owner] == nil {
		l.standing[owner] = map[driftID]struct{}{}
	}
	l.standing[owner][id] = struct{}{}
}

// owners lists the units that have standing changes.
func (l *driftLog) owners() []unit.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.standing))
}

// stands reports whether the unit has a standing change.
func (l *driftLog) stands(owner unit.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.standing[owner]) > 0
}

func (l *driftLog) record(id driftID, d Drift) Drift {
	l.total++
	known := l.byID[id]
	if known == nil {
		known = &d
		known.Since = l.now()
		l.byID[id] = known
	} else {
		l.latest = slices.DeleteFunc(l.latest, func(x *Drift) bool { return x == known })
		known.Owner, known.Op, known.Want, known.Have, known.State = d.Owner, d.Op, d.Want, d.Have, d.State
	}
	known.Last = l.now()
	known.Count++
	l.latest = slices.Insert(l.latest, 0, known)
	if len(l.latest) > maxDrifts {
		oldest := l.latest[maxDrifts]
		l.latest = l.latest[:maxDrifts]
		for id, d := range l.byID {
			if d == oldest {
				delete(l.byID, id)
			}
		}
	}
	return *known
}

// driftsOf flattens changes: one Drift for each column.
func driftsOf(changes []Change, state DriftState) []Drift {
	var found []Drift
	for _, c := range changes {
		d := Drift{Owner: c.Owner, Op: c.Op, Table: c.Table, UUID: c.UUID, Name: c.Name, State: state}
		switch c.Op {
		case OpInsert:
			d.Want, d.Have = "present", "absent"
			found = append(found, d)
			continue
		case OpDelete:
			d.Want, d.Have = "absent", "present"
			found = append(found, d)
			continue
		}
		for _, column := range c.Columns {
			d.Column, d.Want, d.Have = column.Column, column.Want, column.Have
			found = append(found, d)
		}
	}
	return found
}

// A unit is repaired immediately, but at most once a second if another program keeps reverting the repair.
const (
	freeRepairs  = 5
	repairWindow = 10 * time.Second
	repairPause  = time.Second
)

// repairs counts the repairs of one unit.
type repairs struct {
	count int
	since time.Time
}

// allow reports whether the next repair is due.
func (r *repairs) allow(now time.Time) bool {
	if now.Sub(r.since) > repairWindow {
		r.count, r.since = 0, now
	}
	r.count++
	if r.count <= freeRepairs {
		return true
	}
	r.count, r.since = freeRepairs-1, now // the next repair is due after the pause
	return false
}
