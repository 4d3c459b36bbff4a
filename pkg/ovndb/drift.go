package ovndb

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weft-network/weft/pkg/unit"
)

// DriftState says what became of a difference that somebody else made.
type DriftState string

// The states.
const (
	// DriftRepaired is put right.
	DriftRepaired DriftState = "Repaired"
	// DriftStanding is as it was found: the engine only reports.
	DriftStanding DriftState = "Standing"
	// DriftCollision is a foreign row that has the name of one of ours. It is never touched.
	DriftCollision DriftState = "Collision"
)

// maxDrifts bounds the list of a DriftReport.
const maxDrifts = 20

// Drift is a difference that somebody else made in what a unit had in the database.
type Drift struct {
	Owner unit.Key
	Op    Op // what puts it right; empty for a collision
	Table string
	UUID  string
	Name  string // the row's, where the table has names
	// Column is empty when the whole row was concerned.
	Column string
	// Want and Have are texts as in Change, "present" or "absent" for a whole row.
	Want, Have string
	State      DriftState
	Since      time.Time
	Last       time.Time
	Count      int64
}

// DriftReport is what an engine saw since it was made.
type DriftReport struct {
	// Total counts all differences, also those that are not in the list any more.
	Total int64
	// Standing counts the differences and collisions that are there now.
	Standing int
	// Latest has the last 20, the newest first.
	Latest []Drift
}

// driftID identifies a difference that comes again.
type driftID struct {
	table, uuid, column, element string
}

// driftLog remembers differences: all that stand, and the latest of the others.
type driftLog struct {
	now func() time.Time

	mu       sync.Mutex
	total    int64
	latest   []*Drift // newest first
	byID     map[driftID]*Drift
	standing map[unit.Key]map[driftID]struct{} // of units that are only reported, and of units that another row has the name of
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

// seen records the differences of one unit as they are now; one that stood before is no news. It returns those that are.
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

// owners lists the units with something that stands.
func (l *driftLog) owners() []unit.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.standing))
}

// stands reports whether something of the unit stands.
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

// driftsOf flattens changes: one for each column.
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

// Repairs of one unit are at once, but somebody who undoes them again and again gets one a second.
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

// allow reports whether the next repair is due now.
func (r *repairs) allow(now time.Time) bool {
	if now.Sub(r.since) > repairWindow {
		r.count, r.since = 0, now
	}
	r.count++
	if r.count <= freeRepairs {
		return true
	}
	r.count, r.since = freeRepairs-1, now // the next one after the pause is due
	return false
}
