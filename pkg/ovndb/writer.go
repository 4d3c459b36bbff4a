package ovndb

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weft-network/weft/pkg/unit"
)

// writer applies units on one session.
type writer struct {
	engine  *Engine
	session *session
	ledger  *ledger
	fence   *fence // nil: the database has one possible writer
	beats   int    // heartbeats of this session
	notes   notes
	// unaudited holds the rows that the current audit has not read yet.
	unaudited []unit.Ref
}

// dbView is the planner's view of the database: the copy for rows, the ledger for shared columns.
type dbView struct {
	*session
	*ledger
}

func (v dbView) element(s slot, element string) (string, bool) { return v.ledger.get(s, element) }

// drain processes changed rows and applies queued units until both queues are empty.
func (w *writer) drain(ctx context.Context) error {
	for {
		w.engine.progressed()
		w.absorb()
		keys := w.engine.next()
		if len(keys) == 0 {
			return nil
		}
		if err := w.commit(ctx, keys); err != nil {
			w.engine.requeue(keys)
			return err
		}
	}
}

// next takes the next group of keys. A refused unit is a group of its own and comes after the others, so that it
// delays none of them.
func (e *Engine) next() []unit.Key {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.suspects) > 0 && (e.turn || len(e.queue) == 0) {
		e.turn = false
		key := e.suspects[0]
		e.suspects = e.suspects[1:]
		delete(e.queued, key)
		return []unit.Key{key}
	}
	n := min(groupSize, len(e.queue))
	keys := e.queue[:n:n]
	e.queue = e.queue[n:]
	for _, key := range keys {
		delete(e.queued, key)
	}
	e.turn = true
	return keys
}

func (e *Engine) requeue(keys []unit.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, key := range keys {
		e.enqueue(key)
	}
}

// absorb updates the ledger from changed rows and enqueues the units concerned.
func (w *writer) absorb() {
	e := w.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	changes := e.changes
	e.changes = nil
	strays := false
	for _, c := range changes {
		w.absorbRow(c)
		strays = strays || c.event == RowAdded && c.owner != "" && e.desired.units[c.owner] == nil
	}
	if strays && e.cfg.OnStray != nil {
		e.cfg.OnStray()
	}
}

func (w *writer) absorbRow(c rowChange) {
	e := w.engine
	t := w.session.schema.Tables[c.ref.Table]
	own := c.event == RowAdded && w.ledger.made[c.ref.UUID] > 0 // it has what we inserted, and the ledger is ahead of it
	if own {
		w.ledger.reported(c.ref.UUID)
	}
	w.session.has(c.owner, c.ref.Table)
	if c.event == RowRemoved && w.ledger.made[c.ref.UUID] == 0 && !w.session.hasRow(c.ref.Table, c.ref.UUID) {
		w.ledger.forgetRow(c.ref, t.Shared)
	}
	if c.row != nil && c.event != RowRemoved && !own {
		w.absorbShared(c, t)
	}
	switch owner, ok := e.desired.rows[c.ref.UUID]; {
	case ok && c.event == RowAdded: // our own insert; it only ends a wait
	case ok:
		e.enqueue(owner)
	case e.desired.units[c.owner] != nil: // a copy of our row, or a row that its unit no longer wants
		e.enqueue(c.owner)
	case t.Named:
		if owner, ok := e.desired.named[rowName{c.ref.Table, nameOf(c.row)}]; ok {
			e.enqueue(owner)
		}
	}
	if _, ours := e.desired.rows[c.ref.UUID]; !ours && c.owner == "" {
		w.addForeignRow(c)
	}
	if owner, ok := e.blocked[rowName{c.ref.Table, c.name}]; ok {
		e.enqueue(owner)
	}
	if c.event != RowUpdated {
		w.wakeBelow(c.ref, func(st *unitState) bool {
			return st.last != nil || c.event == RowRemoved && needs(st.unit, c.ref.UUID) || c.event == RowAdded && w.lacks(st.unit, c.ref)
		})
	}
}

// absorbShared reads the shared columns that are monitored. Combined elements are compared at once, because other programs replace
// the whole value.
func (w *writer) absorbShared(c rowChange, t Table) {
	ref, row := c.ref, c.row
	if latest := w.session.row(ref.Table, ref.UUID); latest != nil && len(t.Combine) > 0 {
		row = latest // the event may be older than what confirm has read
	}
	if t.Foreign {
		ref.UUID = ""
	}
	for _, name := range t.Monitored {
		elements := map[string]string{}
		switch v := column(row, name).(type) {
		case []string:
			for _, element := range v {
				elements[element] = ""
			}
		case map[string]string:
			elements = v
		}
		for _, element := range w.ledger.setSlot(slot{ref, name}, elements) {
			if t.Combine[element] != nil {
				w.compare(member{slot{ref, name}, element})
			}
		}
	}
}

// needs reports whether a unit has a membership in a row that is not optional. An optional membership in an absent row
// is no difference, and the row comes back with it.
func needs(u unit.Unit, row string) bool {
	return slices.ContainsFunc(u.Members, func(m unit.Membership) bool { return m.Parent.UUID == row && !m.Optional })
}

// wakeBelow enqueues the units with memberships in a row that was added, removed or recreated.
func (w *writer) wakeBelow(ref unit.Ref, concerned func(*unitState) bool) {
	e := w.engine
	if len(w.session.schema.Tables[ref.Table].Shared) == 0 {
		return
	}
	if w.session.schema.Tables[ref.Table].Foreign {
		ref.UUID = ""
	}
	for key := range e.desired.below[ref.UUID] {
		if concerned(e.desired.units[key]) {
			e.enqueue(key)
		}
	}
}

// commit applies a group in one transaction. If the database refuses it, commit tries the halves, down to the unit
// that causes the refusal. An error means that the connection or the epoch is lost.
func (w *writer) commit(ctx context.Context, keys []unit.Key) error {
	plan, group, err := w.try(ctx, keys)
	if len(keys) == 1 && outdated(err) {
		if err := w.audit(ctx); err != nil {
			return err
		}
		plan, group, err = w.try(ctx, keys)
	}
	switch {
	case err == nil:
		w.record(&plan)
		if err := w.confirm(ctx, &plan); err != nil {
			return err
		}
	case !refused(err):
		return err
	case len(keys) > 1:
		middle := len(keys) / 2
		if err := w.commit(ctx, keys[:middle]); err != nil {
			return err
		}
		return w.commit(ctx, keys[middle:])
	}
	w.settle(group, err)
	return nil
}

// try plans a group and sends the plan.
func (w *writer) try(ctx context.Context, keys []unit.Key) (Plan, []plannedUnit, error) {
	plan, group := w.plan(keys)
	ops, err := w.session.operations(&plan)
	if err == nil && len(ops) > 0 {
		w.draft(&plan, group)
		err = w.transact(ctx, ops, group)
		w.addDraft(err)
	}
	return plan, group, err
}

// refused reports whether the database replied with an error.
func refused(err error) bool { return err != nil && !lostConnection(err) && !fatal(err) }

// plannedUnit is a unit as it was when its group was planned.
type plannedUnit struct {
	key     unit.Key
	version uint64
	pending error     // why the unit has to wait; nil if it is in the plan
	drifts  []Drift   // foreign changes
	left    bool      // the drifts stay: they are only reported, or their repair has to wait
	found   time.Time // when the drifts were found
	cause   Cause
	planned bool // the plan has something of the unit
}

// plan computes the plan of a group.
func (w *writer) plan(keys []unit.Key) (Plan, []plannedUnit) {
	e := w.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	var group []plannedUnit
	view := dbView{w.session, w.ledger}
	p := newPlanner(w.session.schema, e.desired, view)
	for _, key := range keys {
		st := e.desired.units[key]
		if st == nil {
			continue
		}
		planned := plannedUnit{key: key, version: st.version, cause: st.cause}
		if absent := p.park(st); absent != nil {
			planned.pending = &PendingError{Unit: key, Reason: fmt.Sprintf("row %s of %s is absent", absent.UUID, absent.Table),
				Absent: *absent}
		}
		group = append(group, planned)
	}
	for i := range group {
		st := e.desired.units[group[i].key]
		same := st.clean && !st.parked && !w.findDrift(&group[i], st, view)
		if !group[i].left && (!same || p.changesRows()) {
			before := p.plan.size()
			p.add(st)
			group[i].planned = p.plan.size() > before
		}
		group[i].drifts = append(group[i].drifts, w.collisions(st.unit, false)...)
	}
	p.dropWeakReferences()
	return p.plan, group
}

// transact sends the operations of a group behind the fence, with a comment that names their causes.
func (w *writer) transact(ctx context.Context, ops []ovsdb.Operation, group []plannedUnit) error {
	if w.fence != nil {
		ops = append([]ovsdb.Operation{w.fence.wait()}, ops...)
	}
	n := len(ops)
	if writer := w.engine.cfg.Writer; writer != "" {
		ops = withComment(ops, writer, causesText(group))
	}
	_, index, err := w.session.transact(ctx, ops...)
	if err != nil && index == 0 && w.fence != nil {
		err = fmt.Errorf("%w, or the database was replaced: epoch %d is gone: %w", ErrFenced, w.fence.epoch, err)
	}
	w.engine.cfg.Observer.Transaction(w.session.schema.Model.Name(), "write", n, err)
	return err
}

// record updates the ledger with a committed plan.
func (w *writer) record(p *Plan) {
	e := w.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	e.commits++
	for _, m := range p.Removes {
		w.ledger.remove(slot{m.Parent, m.Column}, m.Element)
	}
	for _, d := range p.Deletes {
		ref := d.Ref
		w.ledger.forgetRow(ref, w.session.schema.Tables[ref.Table].Shared)
		w.loseBelow(ref.UUID)
	}
	for _, c := range p.Inserts { // a new row is empty, whatever its predecessor had
		for _, name := range w.session.schema.Tables[c.Table].Shared {
			w.ledger.setSlot(slot{unit.Ref{Table: c.Table, UUID: uuidOf(c.Model)}, name}, nil)
		}
	}
	for _, m := range p.Adds {
		w.ledger.add(slot{m.Parent, m.Column}, m.Element, m.Value)
	}
	for _, c := range p.Inserts {
		w.session.has(c.Owner, c.Table)
		w.ledger.made[uuidOf(c.Model)]++
		row := unit.Ref{Table: c.Table, UUID: uuidOf(c.Model)}
		w.wakeBelow(row, func(st *unitState) bool {
			if st.unit.Key == e.desired.rows[row.UUID] {
				return false
			}
			lacks := w.lacks(st.unit, row)
			switch {
			case lacks && !needs(st.unit, row.UUID):
				st.change() // it has joined since the insertion was planned
			case lacks:
				st.clean, st.lost = false, e.commits // it was planned while the row's predecessor was there
			}
			return lacks || st.last != nil
		})
	}
}

// loseBelow records that units have lost their elements of a row that we deleted. What they lack is not foreign, even if the
// row is made again before they are planned.
func (w *writer) loseBelow(row string) {
	for key := range w.engine.desired.below[row] {
		if st := w.engine.desired.units[key]; needs(st.unit, row) {
			st.clean, st.lost = false, w.engine.commits
			w.engine.enqueue(key)
		}
	}
}

// lacks reports whether the ledger lacks an element that a unit adds to a row.
func (w *writer) lacks(u unit.Unit, row unit.Ref) bool {
	return slices.ContainsFunc(u.Members, func(m unit.Membership) bool {
		if m.Parent != row {
			return false
		}
		value, held := w.ledger.get(slot{m.Parent, m.Column}, m.Element)
		return !w.session.schema.met(m, value, held)
	})
}

// settle releases the callers that wait for the units. Outcomes without a caller go to onSettled if they are new. A
// unit that was replaced after its group was planned is queued again and settled then.
func (w *writer) settle(group []plannedUnit, refused error) {
	e := w.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, planned := range group {
		st := e.desired.units[planned.key]
		if st == nil {
			continue
		}
		// also for a unit that was replaced meanwhile, because the difference is not found again
		w.reportDrift(planned, st, refused != nil)
		err := planned.pending
		if refused != nil {
			err = &RejectedError{planned.key, refused}
		}
		if st.version != planned.version {
			st.clean = st.clean && err == nil // even if it was replaced by an equal unit: it has no rows while it waits
			continue
		}
		w.block(st.unit, refused != nil)
		waited, before := len(st.waiters) > 0, st.last
		st.answer(err)
		// a unit of the group of the deletion was planned while the row existed
		st.last, st.clean = err, err == nil && st.lost != e.commits
		if !waited && (before == nil) != (err == nil) {
			e.onSettled(planned.key, err)
		}
		if err == nil {
			e.desired.done(st)
		}
	}
}
