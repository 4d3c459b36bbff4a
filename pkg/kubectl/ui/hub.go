package ui

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"
)

// hub holds the rows of all tables and passes changes on to the browsers that are connected.
type hub struct {
	mu     sync.Mutex
	tables map[string]*table
	health any
	subs   map[*subscriber]struct{}
	now    func() time.Time
	// log has the latest changes, the earliest first.
	log []logEntry
	// stale makes followHealth read the status again.
	stale chan struct{}
}

// table is a list that the page shows. Several feeds may fill it.
type table struct {
	rows map[string]any // id -> row
	// reading has an entry for each feed that has not read its objects yet.
	reading map[*feed]struct{}
	refused map[*feed]Refusal
}

// subscriber is a browser. Its changes wait until it has taken the earlier ones, and only the last of each row waits.
type subscriber struct {
	changed map[string]map[string]any // table -> id -> row, or nil for a row that is gone
	states  map[string]struct{}       // tables whose state has changed
	logged  []logEntry                // entries of the log that it has not got yet
	health  bool
	wake    chan struct{}
}

func newHub(now func() time.Time) *hub {
	return &hub{tables: map[string]*table{}, subs: map[*subscriber]struct{}{}, now: now, stale: make(chan struct{}, 1)}
}

// tables are the names of the tables that a feed fills.
func (f *feed) tables() []string {
	if f.partsTable != "" {
		return []string{f.table, f.partsTable}
	}
	return []string{f.table}
}

// add adds the tables of a feed.
func (h *hub) add(f *feed) {
	for _, name := range f.tables() {
		t := h.tables[name]
		if t == nil {
			t = &table{rows: map[string]any{}, reading: map[*feed]struct{}{}, refused: map[*feed]Refusal{}}
			h.tables[name] = t
		}
		t.reading[f] = struct{}{}
	}
}

// put sets a row, or removes it if row is nil, and logs the change. The caller holds the lock.
func (h *hub) put(name, id string, row any) {
	had := h.tables[name].rows[id]
	if h.set(name, id, row) && len(h.tables[name].reading) == 0 {
		h.remember(changeOf(h.now(), name, id, had, row))
	}
}

// set is put without the log. It is false for a row that is as before. The caller holds the lock.
func (h *hub) set(name, id string, row any) bool {
	t := h.tables[name]
	if had, ok := t.rows[id]; ok == (row != nil) && reflect.DeepEqual(had, row) {
		return false
	}
	if row == nil {
		delete(t.rows, id)
	} else {
		t.rows[id] = row
	}
	for s := range h.subs {
		if s.changed[name] == nil {
			s.changed[name] = map[string]any{}
		}
		s.changed[name][id] = row
		s.kick()
	}
	return true
}

// setState records that a feed has read its objects, or why it cannot.
func (h *hub) setState(f *feed, refusal *Refusal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range f.tables() {
		t := h.tables[name]
		_, reads := t.reading[f]
		had, wasRefused := t.refused[f]
		if !reads && (refusal == nil) == !wasRefused && (refusal == nil || *refusal == had) {
			continue
		}
		delete(t.reading, f)
		if delete(t.refused, f); refusal != nil {
			t.refused[f] = *refusal
		}
		for s := range h.subs {
			s.states[name] = struct{}{}
			s.kick()
		}
	}
}

func (s *subscriber) kick() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// subscribe returns a subscriber, and the events that describe the present state.
func (h *hub) subscribe() (*subscriber, []event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &subscriber{changed: map[string]map[string]any{}, states: map[string]struct{}{}, wake: make(chan struct{}, 1)}
	h.subs[s] = struct{}{}
	var all []event
	for name, t := range h.tables {
		if name == "" {
			continue
		}
		all = append(all, event{"table", tableEvent{Table: name, stateEvent: t.state(), Rows: maps.Clone(t.rows)}})
	}
	all = append(all, event{"log", logEvent{Whole: true, Entries: slices.Clone(h.log)}})
	if h.health != nil {
		all = append(all, event{"health", h.health})
	}
	h.refresh()
	return s, all
}

func (h *hub) unsubscribe(s *subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.subs, s)
}

// take returns the events that have come since the last call.
func (h *hub) take(s *subscriber) (all []event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, rows := range s.changed {
		if name == "" {
			continue
		}
		change := changeEvent{Table: name, Put: map[string]any{}, Drop: []string{}}
		for id, row := range rows {
			if row == nil {
				change.Drop = append(change.Drop, id)
			} else {
				change.Put[id] = row
			}
		}
		all = append(all, event{"change", change})
	}
	for name := range s.states {
		if name != "" {
			all = append(all, event{"state", tableEvent{Table: name, stateEvent: h.tables[name].state()}})
		}
	}
	if len(s.logged) > 0 {
		all = append(all, event{"log", logEvent{Entries: s.logged}})
	}
	if s.health {
		all = append(all, event{"health", h.health})
	}
	s.logged = nil
	s.changed, s.states, s.health = map[string]map[string]any{}, map[string]struct{}{}, false
	return all
}

// refresh requests that the status is read again.
func (h *hub) refresh() {
	select {
	case h.stale <- struct{}{}:
	default:
	}
}

const (
	// healthPause is the least time between two readings of the status.
	healthPause = time.Second
	// healthAge is the time after which the status is read again without an event, because a lease can expire silently.
	healthAge = 10 * time.Second
)

// followHealth reads the status after events, and from time to time, while a browser is connected.
func (h *hub) followHealth(ctx context.Context, c Cluster) {
	for ctx.Err() == nil {
		select {
		case <-h.stale:
		case <-time.After(healthAge):
		case <-ctx.Done():
			return
		}
		h.mu.Lock()
		watched := len(h.subs) > 0
		h.mu.Unlock()
		if !watched {
			continue
		}
		h.setHealth(readHealth(ctx, c))
		select {
		case <-time.After(healthPause):
		case <-ctx.Done():
		}
	}
}

func readHealth(ctx context.Context, c Cluster) healthEvent {
	report, err := c.Status(ctx)
	if err != nil {
		return healthEvent{Refused: refusalOf(err, c.Explain)}
	}
	return healthEvent{Report: report}
}

func (h *hub) setHealth(now healthEvent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if reflect.DeepEqual(h.health, any(now)) {
		return
	}
	h.health = now
	for s := range h.subs {
		s.health = true
		s.kick()
	}
}
