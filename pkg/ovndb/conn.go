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

	"github.com/weft-network/weft/pkg/ovndb/history"
)

// Observer receives the engine's transactions, connection changes and drift. pkg/process/metrics counts them.
type Observer interface {
	// Transaction counts one committed or refused transaction; kind is "write", "fence" or "heartbeat".
	Transaction(database, kind string, operations int, err error)
	// Connected receives each change of the connection, and first that no connection exists yet.
	Connected(database string, up bool)
	// Drift counts one foreign change. state is Repaired, Standing or Collision.
	Drift(database, table, state string)
}

type noObserver struct{}

func (noObserver) Transaction(string, string, int, error) {}
func (noObserver) Connected(string, bool)                 {}
func (noObserver) Drift(string, string, string)           {}

// RowEvent is the kind of change of a row.
type RowEvent int

// The events.
const (
	RowAdded RowEvent = iota
	RowUpdated
	RowRemoved
)

// OnTable returns a function for Config.OnRow that calls changed for each event of a table.
func OnTable(table string, changed func()) func(string, model.Model, RowEvent) {
	return func(of string, _ model.Model, _ RowEvent) {
		if of == table {
			changed()
		}
	}
}

// Config selects the database of a connection and sets its limits.
type Config struct {
	Schema Schema
	// Endpoints are the OVSDB remotes of one cluster: "ssl:ADDRESS:PORT", "tcp:ADDRESS:PORT" or "unix:PATH". At least
	// one is required.
	Endpoints []string
	// TLS applies to "ssl:" endpoints.
	TLS TLS
	// Where restricts the monitor of a table to rows that match the conditions. The key is the table.
	Where map[string][]ovsdb.Condition
	// OnRow is called for each row that was added, changed or removed. It must only enqueue.
	OnRow func(table string, row model.Model, event RowEvent)
	// Admit may refuse a database before the engine writes anything to it, the fence included. rows is the complete
	// copy. Admit is called for each connection.
	Admit func(ctx context.Context, rows *Conn) error
	// OnConnect is called when the connection is complete, when it is lost, and when the server's schema makes it
	// impossible. It must only enqueue.
	OnConnect func(up bool)
	// OnDrift is called when Drifts changes. It must only enqueue.
	OnDrift func()
	// OnStray is called when a row appears whose owner is a unit that the engine does not have. It must only enqueue.
	OnStray func()
	// Now is the clock for the times in Drifts. The default is time.Now.
	Now func() time.Time
	// Audit is the interval at which the columns that are not monitored are compared by select. The default is 60 s.
	Audit time.Duration
	// ReadOnly keeps an Engine from writing anything, including its fence. Units are then only stored, for
	// Difference.
	ReadOnly bool
	// Deadline bounds each call to a server. A call that takes longer ends the connection. The default is 10 s.
	Deadline time.Duration
	// Heartbeat is the interval at which a writer with a fence proves by a write that it sees the database. The
	// default is 5 s.
	Heartbeat time.Duration
	// BlindAfter is how long a writer with a fence continues without such a proof before Run returns ErrBlind. The
	// default is 30 s, the minimum two heartbeats.
	BlindAfter time.Duration
	Observer   Observer
	Log        logr.Logger
	// Writer names this program and its version in a comment of each transaction, such as "weft v0.3.0". If it is
	// empty, transactions have no comments.
	Writer string
	// History, if set, records the changes of an Engine, and the foreign changes that it finds.
	History *history.Recorder
}

// Conn keeps one database connected. Each connection has a new client.
type Conn struct {
	cfg       Config
	endpoints endpoints
	seen      func() // called when a server responds that cannot be used

	mu      sync.RWMutex
	current *session
	served  *Schema    // of the present or the last session
	changed *sync.Cond // signals each change of a row or of the connection to waiters
	version uint64
	failure error // why no connection exists
	step    time.Time
}

// NewConn returns a connection. Run establishes it.
func NewConn(cfg Config) *Conn {
	if cfg.Observer == nil {
		cfg.Observer = noObserver{}
	}
	cfg.Deadline = cmp.Or(cfg.Deadline, callTimeout)
	c := &Conn{cfg: cfg, seen: func() {}}
	c.changed = sync.NewCond(c.mu.RLocker())
	c.endpoints.set(cfg.Endpoints)
	return c
}

// Run connects, and reconnects after each failure, until ctx ends.
func (c *Conn) Run(ctx context.Context) error {
	return c.run(ctx, func(ctx context.Context, s *session) error {
		c.publish(s)
		return c.watch(ctx, s)
	}, func(time.Duration) {})
}

// run calls use with each new session. use returns when the session is lost. Only ErrFenced and the end of ctx end
// run. extend receives how long the loading of a copy may still take.
func (c *Conn) run(ctx context.Context, use func(context.Context, *session) error, extend func(time.Duration)) error {
	c.cfg.Observer.Connected(c.cfg.Schema.Model.Name(), false) // also reports a connection that is never established
	backoff := newBackoff()
	for ctx.Err() == nil {
		c.progressed()
		s, err := c.dial(ctx, extend)
		if err == nil {
			err = use(ctx, s)
			if c.Connected() { // a session that failed, such as a refused one, does not count
				backoff.reset()
			}
			c.publish(nil)
			s.close()
			c.endpoints.skip(s.endpoint) // this server may be cut off while another is not
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

// dial tries each endpoint once, beginning with the next in turn. The leader is not preferred (docs/dev/connection.md).
func (c *Conn) dial(ctx context.Context, extend func(time.Duration)) (*session, error) {
	var failures error
	for range c.endpoints.count() {
		endpoint := c.endpoints.current()
		s, err := dial(ctx, &c.cfg, endpoint, &events{c}, extend)
		if err == nil {
			return s, nil
		}
		c.endpoints.skip(endpoint)
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

// fail records why no connection exists. It calls OnConnect if the server's schema is, or was, the cause.
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

// Failure returns why no connection exists. It returns nil while connected, and before the first attempt failed.
func (c *Conn) Failure() error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.current != nil {
		return nil
	}
	return c.failure
}

// watch returns when the session is lost, because the server closed the connection or an echo got no reply.
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

// progressed records that the loop of Run took a step.
func (c *Conn) progressed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.step = time.Now()
}

// Progress returns when Run last took a step, or the zero time before Run starts. Every step has a deadline:
// Config.Deadline for a call, and for the first copy as long as data arrives. A step that takes minutes is therefore
// a deadlock.
func (c *Conn) Progress() time.Time {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.step
}

// publish makes a session, or its absence, visible to readers.
func (c *Conn) publish(s *session) {
	c.mu.Lock()
	was := c.current != nil
	if c.current = s; s != nil {
		c.served = s.schema
	}
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

// Connected reports whether the copy is complete and the connection is alive.
func (c *Conn) Connected() bool { return c.session() != nil }

// Wake makes every Wait evaluate its condition again. Callers use it when other input of a condition has changed.
func (c *Conn) Wake() {
	c.mu.Lock()
	c.version++
	c.mu.Unlock()
	c.changed.Broadcast()
}

// Wait calls ready after each change of a row or of the connection, and returns nil once ready returns true. It
// returns the error of ready, or of ctx. ready must be cheap.
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

// events passes the cache's events to the connection. The library drops events when its buffer is full, so an event
// only means that something has changed.
type events struct{ conn *Conn }

// OnAdd implements cache.EventHandler.
func (e *events) OnAdd(table string, m model.Model) { e.forward(table, m, RowAdded) }

// OnUpdate implements cache.EventHandler.
func (e *events) OnUpdate(table string, _, m model.Model) { e.forward(table, m, RowUpdated) }

// OnDelete implements cache.EventHandler.
func (e *events) OnDelete(table string, m model.Model) { e.forward(table, m, RowRemoved) }

func (e *events) forward(table string, m model.Model, event RowEvent) {
	if e.conn.cfg.OnRow != nil {
		e.conn.cfg.OnRow(table, m, event)
	}
	e.conn.Wake()
}
