package ovndb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/weft-network/weft/pkg/unit"
)

const (
	// groupSize bounds the units of one transaction. The server is most efficient with 10 to 100 operations.
	groupSize = 50
	// defaultAudit is the default of Config.Audit.
	defaultAudit = 60 * time.Second
)

// Engine applies units to a database, of which it is the only writer.
type Engine struct {
	*Conn
	// onSettled receives the outcome of units that the engine applied without a caller: after a reconnect, a wake-up
	// or a repair. It must only enqueue.
	onSettled func(unit.Key, error)

	mu       sync.Mutex
	desired  *desired
	queue    []unit.Key
	suspects []unit.Key // the queue of refused units
	turn     bool       // the next group comes from suspects
	queued   map[unit.Key]struct{}
	writer   *writer // nil while offline

	// blocked maps the names of refused units' rows to the units, which are enqueued when the foreign row of that
	// name is removed.
	blocked map[rowName]unit.Key

	drift      *driftLog
	reportOnly bool          // foreign changes are reported and not repaired
	changes    []rowChange   // changed rows that the writer has not processed
	commits    uint64        // how many plans were recorded
	signal     chan struct{} // wakes the writer
	online     bool

	sight *sight // only Run uses it
	id    string // identity of this process at the fence
	epoch int    // the last epoch taken; only the writer uses it
}

// rowChange is a database event in the writer's queue.
type rowChange struct {
	ref   unit.Ref
	owner unit.Key
	name  string // of a removed row
	row   model.Model
	event RowEvent
}

// NewEngine returns an engine. Run starts it. onSettled may be nil.
func NewEngine(cfg Config, onSettled func(unit.Key, error)) *Engine {
	if onSettled == nil {
		onSettled = func(unit.Key, error) {}
	}
	e := &Engine{onSettled: onSettled, desired: newDesired(), queued: map[unit.Key]struct{}{},
		blocked: map[rowName]unit.Key{}, signal: make(chan struct{}, 1), id: uuid.NewString()}
	if cfg.Audit == 0 {
		cfg.Audit = defaultAudit
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Heartbeat = cmp.Or(cfg.Heartbeat, defaultHeartbeat)
	cfg.BlindAfter = max(cmp.Or(cfg.BlindAfter, defaultBlindAfter), 2*cfg.Heartbeat)
	e.drift = newDriftLog(cfg.Now)
	onRow := cfg.OnRow
	cfg.OnRow = func(table string, row model.Model, event RowEvent) {
		e.rowChanged(table, row, event)
		if onRow != nil {
			onRow(table, row, event)
		}
	}
	e.Conn = NewConn(cfg)
	return e
}

// Apply makes u the desired state of its key. It returns nil once u is committed, or if nothing has to change. It
// returns a RejectedError if u is refused, and a PendingError if u is stored until its parent row or the database is
// available.
func (e *Engine) Apply(ctx context.Context, u unit.Unit) error {
	u = e.tagged(u)
	e.mu.Lock()
	done := e.submit(u, causeOf(ctx))
	e.mu.Unlock()
	return await(ctx, u.Key, done)
}

// ApplyAll applies units together: one transaction has them all, unless one of them is refused. A unit that is stored
// until its parent row or the database is available is no error.
func (e *Engine) ApplyAll(ctx context.Context, units ...unit.Unit) error {
	tagged, done := make([]unit.Unit, len(units)), make([]<-chan error, len(units))
	for i, u := range units {
		tagged[i] = e.tagged(u)
	}
	cause := causeOf(ctx)
	e.mu.Lock()
	for i, u := range tagged {
		done[i] = e.submit(u, cause)
	}
	e.mu.Unlock()
	var err error
	for i, u := range units {
		err = errors.Join(err, IgnorePending(await(ctx, u.Key, done[i])))
	}
	return err
}

// Retry applies a unit again as it is wanted now.
func (e *Engine) Retry(ctx context.Context, key unit.Key) error {
	e.mu.Lock()
	st := e.desired.units[key]
	if st == nil {
		e.mu.Unlock()
		return nil
	}
	done := e.submit(st.unit, causeOf(ctx))
	e.mu.Unlock()
	return await(ctx, key, done)
}

func await(ctx context.Context, key unit.Key, done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("unit %s: %w", key, ctx.Err())
	}
}

// submit makes a tagged unit the desired state and returns where its outcome arrives. e.mu must be held.
func (e *Engine) submit(u unit.Unit, cause Cause) <-chan error {
	done := make(chan error, 1)
	if err := e.desired.check(&e.cfg.Schema, u); err != nil {
		done <- &RejectedError{u.Key, err}
		return done
	}
	st := e.desired.set(&e.cfg.Schema, u)
	st.cause = cause
	if e.online {
		st.waiters = append(st.waiters, done)
	} else {
		done <- st.postpone(&PendingError{Unit: u.Key, Reason: "database is not connected"})
	}
	e.enqueue(u.Key)
	return done
}

// tagged returns the unit with its key in each row's external_ids. It copies what it changes, and shares the rest with
// the caller, who must not change a row afterwards.
func (e *Engine) tagged(u unit.Unit) unit.Unit {
	rows := make([]unit.Row, len(u.Rows))
	for i, row := range u.Rows {
		rows[i] = row
		if row.Columns != nil {
			continue
		}
		had, ok := column(row.Model, "external_ids").(map[string]string)
		if !ok || had[unit.OwnerKey] == string(u.Key) {
			continue
		}
		ids := make(map[string]string, len(had)+1)
		maps.Copy(ids, had)
		ids[unit.OwnerKey] = string(u.Key)
		rows[i].Model = shallow(row.Model)
		setColumn(rows[i].Model, "external_ids", ids)
	}
	u.Rows = rows
	return u
}

// enqueue queues the key for the next plan. e.mu must be held.
func (e *Engine) enqueue(key unit.Key) {
	if _, ok := e.queued[key]; ok {
		return
	}
	e.queued[key] = struct{}{}
	var refused *RejectedError
	if st := e.desired.units[key]; st != nil && errors.As(st.last, &refused) {
		e.suspects = append(e.suspects, key)
	} else {
		e.queue = append(e.queue, key)
	}
	e.notify()
}

func (e *Engine) notify() {
	select {
	case e.signal <- struct{}{}:
	default:
	}
}

// rowChanged queues a database event. It runs in the library's event loop and must not block.
func (e *Engine) rowChanged(table string, row model.Model, event RowEvent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change := rowChange{ref: unit.Ref{Table: table, UUID: uuidOf(row)}, owner: e.cfg.Schema.ownerOf(table, row), event: event}
	if event == RowRemoved {
		change.name = nameOf(row)
	}
	if t := e.cfg.Schema.Tables[table]; len(t.Monitored) > 0 || t.Named {
		change.row = row
	}
	e.changes = append(e.changes, change)
	e.notify()
}

// Owners counts the rows of each unit in the database. ok is false while the database is not connected.
func (e *Engine) Owners() (owners map[unit.Key]int, ok bool) {
	s := e.session()
	if s == nil {
		return nil, false
	}
	return s.owners(), true
}

// RowsOf returns the rows of a unit. For a unit that this process has not applied, it returns the rows in the database; known is
// false while the database is not connected. The caller must not change them.
func (e *Engine) RowsOf(key unit.Key) (rows []unit.Row, known bool) {
	e.mu.Lock()
	if st := e.desired.units[key]; st != nil {
		defer e.mu.Unlock()
		return st.unit.Rows, true
	}
	e.mu.Unlock()
	s := e.session()
	if s == nil {
		return nil, false
	}
	for _, ref := range s.ownedBy(key) {
		if m := s.row(ref.Table, ref.UUID); m != nil {
			rows = append(rows, unit.Row{Model: m})
		}
	}
	return rows, true
}

// Unit returns the unit of a key as it is wanted now, with the memberships that it has joined. It is empty if none was
// applied. The caller must not change it.
func (e *Engine) Unit(key unit.Key) unit.Unit {
	e.mu.Lock()
	defer e.mu.Unlock()
	if st := e.desired.units[key]; st != nil {
		return st.unit
	}
	return unit.Unit{Key: key}
}

// Wanted reports whether a non-empty unit was applied under this key.
func (e *Engine) Wanted(key unit.Key) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	st := e.desired.units[key]
	return st != nil && !st.unit.Empty()
}

// Drifts returns the foreign changes since the engine was created.
func (e *Engine) Drifts() DriftReport { return e.drift.report() }

// ReportOnly switches the repair of foreign changes off or on. While it is off, a foreign change stays until its unit
// changes. Switching it on again repairs what was left. Repair is on by default.
func (e *Engine) ReportOnly(on bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.reportOnly == on {
		return
	}
	e.reportOnly = on
	for _, owner := range e.drift.owners() {
		e.enqueue(owner)
	}
}

// Complete declares that the units of all existing objects have been applied once. From then on the engine removes
// every element that no unit wants from the columns that are ours alone (Table.Whole). Elements that exist at this
// moment may belong to an object that was deleted while no process ran, so their removal does not count as drift.
func (e *Engine) Complete() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.desired.complete {
		return
	}
	e.desired.complete = true
	for key, st := range e.desired.units {
		if e.hasWhole(st.unit) {
			st.change()
			e.enqueue(key)
		}
	}
}

func (e *Engine) hasWhole(u unit.Unit) bool {
	return slices.ContainsFunc(u.Rows, func(row unit.Row) bool {
		table, _ := e.cfg.Schema.tableOf(row.Model)
		return len(e.cfg.Schema.Tables[table].Whole) > 0
	})
}

// Run connects, takes the epoch, compares everything and then writes changes. It ends with ctx, with ErrFenced when
// another process takes over, or with ErrBlind when the database is unreachable for too long.
func (e *Engine) Run(ctx context.Context) error {
	stop, extend := func() {}, func(time.Duration) { e.progressed() }
	if e.fenced() {
		ctx, e.sight, stop = watchSight(ctx, e.cfg.BlindAfter)
		e.Conn.seen = e.seen
		extend = func(d time.Duration) { e.progressed(); e.sight.extend(d) }
	}
	defer stop()
	err := e.run(ctx, func(ctx context.Context, s *session) error {
		w, err := e.takeOver(ctx, s)
		if err != nil {
			return err
		}
		defer e.goOffline()
		e.publish(s)
		if e.cfg.ReadOnly {
			return e.follow(ctx, w)
		}
		return e.work(ctx, w)
	}, extend)
	if cause := context.Cause(ctx); errors.Is(cause, ErrBlind) {
		return fmt.Errorf("database %s: %w: %w", e.cfg.Schema.Model.Name(), ErrBlind, cmp.Or(e.Failure(), errDisconnected))
	}
	return err
}

// takeOver prepares a writer on a new session and enqueues every unit.
func (e *Engine) takeOver(ctx context.Context, s *session) (*writer, error) {
	if e.cfg.Admit != nil {
		if err := e.cfg.Admit(ctx, &Conn{cfg: e.cfg, current: s}); err != nil {
			e.seen()
			return nil, fmt.Errorf("database %s: %w", s.schema.Model.Name(), err)
		}
	}
	w := &writer{engine: e, session: s}
	if e.fenced() {
		f, err := takeFence(ctx, s, claim{holder: e.id, after: e.epoch, writer: e.cfg.Writer})
		e.cfg.Observer.Transaction(s.schema.Model.Name(), "fence", 1, err)
		if err != nil {
			return nil, err
		}
		w.fence, e.epoch = f, f.epoch
		// The server may reply before it sends a commit of the former writer. A plan that takes that writer's rows as they
		// were would find nothing to write, and their removal would then count as foreign.
		if err := w.sees(ctx, f.taken); err != nil {
			return nil, fmt.Errorf("await epoch %d: %w", f.epoch, err)
		}
	}
	l, err := loadLedger(ctx, s)
	if err != nil {
		return nil, err
	}
	e.seen()
	w.ledger = l
	s.findOwners()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.changes = nil
	for key := range e.desired.units {
		e.enqueue(key)
	}
	e.online, e.writer = !e.cfg.ReadOnly, w
	if h := e.cfg.History; h != nil {
		h.Begin(e.cfg.Now())
	}
	return w, nil
}

// fenced reports whether late commits of a former writer must fail.
func (e *Engine) fenced() bool { return e.cfg.Schema.Fence != "" && !e.cfg.ReadOnly }

// goOffline releases all waiting callers with a PendingError. Their units stay desired.
func (e *Engine) goOffline() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.online, e.writer = false, nil
	for key, st := range e.desired.units {
		if len(st.waiters) > 0 {
			st.answer(st.postpone(&PendingError{Unit: key, Reason: "database connection was lost"}))
		}
	}
}

// work writes until the session is lost. An idle writer sends immediately. Units that arrive while a transaction is
// in flight share the next transaction.
func (e *Engine) work(ctx context.Context, w *writer) error {
	beat, audit := time.NewTicker(e.cfg.Heartbeat), time.NewTicker(e.cfg.Audit)
	defer beat.Stop()
	defer audit.Stop()
	ready := make(chan struct{})
	close(ready)
	for {
		e.progressed()
		var step <-chan struct{} // not nil while an audit is in progress
		if len(w.unaudited) > 0 {
			step = ready
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.session.lost:
			return errDisconnected
		case <-beat.C:
			if err := w.alive(ctx); err != nil {
				return err
			}
		case <-audit.C:
			w.beginAudit()
		case <-step:
			if err := w.auditStep(ctx); err != nil {
				return err
			}
		case <-e.signal:
			if err := w.drain(ctx); err != nil {
				return err
			}
		}
	}
}

// follow processes row events without writing until the session is lost.
func (e *Engine) follow(ctx context.Context, w *writer) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.session.lost:
			return errDisconnected
		case <-e.signal:
			w.absorb()
			e.mu.Lock()
			e.queue, e.suspects = nil, nil
			clear(e.queued)
			e.mu.Unlock()
		}
	}
}

// postpone records that a caller was released with a PendingError, so that the unit's outcome is reported later.
func (st *unitState) postpone(pending *PendingError) error {
	if st.last == nil {
		st.last = pending
	}
	return pending
}

// answer passes the outcome to every caller that waits for the unit.
func (st *unitState) answer(err error) {
	for _, done := range st.waiters {
		done <- err
	}
	st.waiters = nil
}

// lostConnection reports whether the outcome of a transaction is unknown.
func lostConnection(err error) bool { return errors.Is(err, errDisconnected) }
