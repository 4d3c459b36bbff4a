package ovndb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// Observer is told of what the engine does; pkg/metrics counts it.
type Observer interface {
	// Transaction counts one committed or refused transaction; kind is "write", "fence" or "heartbeat".
	Transaction(database, kind string, operations int, err error)
	// Connected tells of a connection made or lost, and first that there is none yet.
	Connected(database string, up bool)
	// Drift counts one difference that somebody else made; state is Repaired, Standing or Collision.
	Drift(database, table, state string)
}

type nobody struct{}

func (nobody) Transaction(string, string, int, error) {}
func (nobody) Connected(string, bool)                 {}
func (nobody) Drift(string, string, string)           {}

// RowEvent tells what happened to a row.
type RowEvent int

// The events.
const (
	RowAdded RowEvent = iota
	RowUpdated
	RowRemoved
)

// Config says which database to keep a connection to.
type Config struct {
	Schema Schema
	// Endpoints are OVSDB remotes, "ssl:ADDRESS:PORT", "tcp:ADDRESS:PORT" or "unix:PATH"; all of one cluster, at least one.
	Endpoints []string
	// TLS is for those of them that are "ssl:".
	TLS TLS
	// Where restricts a table's monitor; table -> conditions that a row must match.
	Where map[string][]ovsdb.Condition
	// OnRow is called for each row that came, changed or went. It must only enqueue.
	OnRow func(table string, row model.Model, event RowEvent)
	// Admit may refuse a database before anything is written to it, the fence included; rows is the complete copy. It is asked
	// at each connection.
	Admit func(ctx context.Context, rows *Conn) error
	// OnConnect is called when the connection is complete or lost, and when it cannot be made because of the server's schema. It must
	// only enqueue.
	OnConnect func(up bool)
	// OnDrift is called when an engine's Drifts changed. It must only enqueue.
	OnDrift func()
	// OnStray is called when a row came that says it belongs to a unit that the engine does not know. It must only enqueue.
	OnStray func()
	// Now is the clock of what Drifts tells; nil is time.Now.
	Now func() time.Time
	// Audit is how often the columns that are not monitored are compared by select; 0 is 60 s.
	Audit time.Duration
	// ReadOnly keeps an Engine from writing anything, its fence too: units are only kept, for Difference.
	ReadOnly bool
	// Deadline bounds each call to a server; one that takes longer means a connection that is lost. 0 is 10 s.
	Deadline time.Duration
	// Heartbeat is how often a writer with a fence proves by a write that it is not blind; 0 is 5 s.
	Heartbeat time.Duration
	// BlindAfter is how long a writer with a fence goes on without such a proof before it ends with ErrBlind; 0 is 30 s, and
	// less than two heartbeats are two.
	BlindAfter time.Duration
	Observer   Observer
	Log        logr.Logger
}

// Conn keeps one database connected: a new client for each connection.
type Conn struct {
	cfg  Config
	turn int    // which of the endpoints is next; only run uses it
	seen func() // is called when a server answers that cannot be used

	mu      sync.RWMutex
	current *session
	changed *sync.Cond // any row or the connection changed; waiters look again
	version uint64
	failure error // why there is no connection
	step    time.Time
}

// NewConn returns a connection that Run keeps.
func NewConn(cfg Config) *Conn {
	if cfg.Observer == nil {
		cfg.Observer = nobody{}
	}
	cfg.Deadline = cmp.Or(cfg.Deadline, callTimeout)
	c := &Conn{cfg: cfg, seen: func() {}}
	c.changed = sync.NewCond(c.mu.RLocker())
	return c
}

// Run connects and connects again until ctx ends.
func (c *Conn) Run(ctx context.Context) error {
	return c.run(ctx, func(ctx context.Context, s *session) error {
		c.publish(s)
		return c.watch(ctx, s)
	}, func(time.Duration) {})
}

// run calls use with each new session; use returns when the session is lost. Only ErrFenced and the end of ctx end it. extend is
// told how long the loading of a copy may still take.
func (c *Conn) run(ctx context.Context, use func(context.Context, *session) error, extend func(time.Duration)) error {
	c.cfg.Observer.Connected(c.cfg.Schema.Model.Name(), false) // one that is never made is told too
	backoff := newBackoff()
	for ctx.Err() == nil {
		c.progressed()
		s, err := c.dial(ctx, extend)
		if err == nil {
			err = use(ctx, s)
			if c.Connected() { // a session that came to nothing, such as one that was refused, is no success
				backoff.reset()
			}
			c.publish(nil)
			s.close()
			c.turn++ // this one may be cut off, and another may not
		}
		c.fail(ctx, err)
		if fatal(err) {
			return err
		}
		if ctx.Err() == nil {
			c.cfg.Log.Info("database is not connected", "database", c.cfg.Schema.Model.Name(), "reason", err.Error())
			backoff.wait(ctx)
		}
	}
	return nil
}

// dial tries each endpoint once, and first the one whose turn it is: leader or not is the same (docs/architecture.md).
func (c *Conn) dial(ctx context.Context, extend func(time.Duration)) (*session, error) {
	var failures error
	for range c.cfg.Endpoints {
		endpoint := c.cfg.Endpoints[c.turn%len(c.cfg.Endpoints)]
		s, err := dial(ctx, &c.cfg, endpoint, &events{c}, extend)
		if err == nil {
			return s, nil
		}
		c.turn++
		if err = fmt.Errorf("%s: %w", endpoint, err); failures != nil {
			err = fmt.Errorf("%w; %w", failures, err)
		}
		failures = err
		if ctx.Err() != nil {
			break
		}
	}
	return nil, failures
}

// fail remembers why there is no connection, and tells of it when that is, or was, the server's schema.
func (c *Conn) fail(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	was := c.failure
	c.failure = err
	c.mu.Unlock()
	c.Wake()
	if tooOld(err) {
		c.seen()
	}
	if c.cfg.OnConnect != nil && (tooOld(was) || tooOld(err)) && fmt.Sprint(was) != fmt.Sprint(err) {
		c.cfg.OnConnect(false)
	}
}

func tooOld(err error) bool {
	var schema *SchemaError
	return errors.As(err, &schema)
}

// Failure says why there is no connection; nil while there is one, or before the first attempt failed.
func (c *Conn) Failure() error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.current != nil {
		return nil
	}
	return c.failure
}

// watch returns when the session is lost: the server hung up, or an echo did not come back.
func (c *Conn) watch(ctx context.Context, s *session) error {
	tick := time.NewTicker(echoInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.lost:
			return errDisconnected
		case <-tick.C:
			c.progressed()
			if err := s.echo(ctx); err != nil {
				return err
			}
		}
	}
}

// progressed notes that the loop of Run goes on.
func (c *Conn) progressed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.step = time.Now()
}

// Progress returns when Run last took a step; the zero time if it has not begun. Every step has a deadline: Config.Deadline for a call, and as
// long as it comes for the first copy, so a step that takes minutes is a deadlock.
func (c *Conn) Progress() time.Time {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.step
}

// publish makes a session, or its absence, visible to readers.
func (c *Conn) publish(s *session) {
	c.mu.Lock()
	was := c.current != nil
	c.current = s
	c.mu.Unlock()
	if up := s != nil; up != was {
		c.cfg.Observer.Connected(c.cfg.Schema.Model.Name(), up)
		c.cfg.Log.Info("database connection changed", "database", c.cfg.Schema.Model.Name(), "connected", up)
		if c.cfg.OnConnect != nil {
			c.cfg.OnConnect(up)
		}
	}
	c.Wake()
}

func (c *Conn) session() *session {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.current
}

// Connected reports whether the cache is complete and the connection alive.
func (c *Conn) Connected() bool { return c.session() != nil }

// Wake lets every Wait look again: something else that it reads has changed.
func (c *Conn) Wake() {
	c.mu.Lock()
	c.version++
	c.mu.Unlock()
	c.changed.Broadcast()
}

// Wait returns nil when ready does, looking again after each change of a row or of the connection; it returns the error of
// ready, or of ctx. ready must be cheap: it is called on every change.
func (c *Conn) Wait(ctx context.Context, ready func() (bool, error)) error {
	stop := context.AfterFunc(ctx, c.Wake)
	defer stop()
	for {
		c.mu.RLock()
		seen := c.version
		c.mu.RUnlock()
		if ok, err := ready(); ok || err != nil {
			return err
		}
		c.mu.RLock()
		for c.version == seen && ctx.Err() == nil {
			c.changed.Wait()
		}
		c.mu.RUnlock()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// events passes the cache's events on; the library drops them when its buffer is full, so they only say "look again".
type events struct{ conn *Conn }

// OnAdd implements cache.EventHandler.
func (e *events) OnAdd(table string, m model.Model) { e.tell(table, m, RowAdded) }

// OnUpdate implements cache.EventHandler.
func (e *events) OnUpdate(table string, _, m model.Model) { e.tell(table, m, RowUpdated) }

// OnDelete implements cache.EventHandler.
func (e *events) OnDelete(table string, m model.Model) { e.tell(table, m, RowRemoved) }

func (e *events) tell(table string, m model.Model, event RowEvent) {
	if e.conn.cfg.OnRow != nil {
		e.conn.cfg.OnRow(table, m, event)
	}
	e.conn.Wake()
}
