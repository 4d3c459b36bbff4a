package ovndb

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/ovn-kubernetes/libovsdb/cache"
	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/mapper"
	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

const (
	// callTimeout is the default of Config.Deadline.
	callTimeout = 10 * time.Second
	// echoInterval is the interval of the echoes that check an idle connection.
	echoInterval = 5 * time.Second
)

// session is one connection with one client, one monitor and one copy. It is never reused: libovsdb purges what it
// has just loaded when it reconnects with several monitors, and deadlocks after a failed reconnect.
type session struct {
	endpoint string
	schema   *Schema
	limit    time.Duration // of a call
	link     *link
	client   client.Client
	cache    *cache.TableCache
	db       ovsdb.DatabaseSchema // the server's; the client forgets it when the connection ends
	loaded   atomic.Bool          // the copy is complete
	lost     <-chan struct{}      // closed when the connection has ended, from whichever side

	examples examples
}

// conditions restrict a table's monitor to the rows that match all of them.
type conditions map[string][]ovsdb.Condition // table -> where

// dial connects to a server and loads all monitored tables. It returns when the copy is complete. While a large
// message arrives, extend receives how long it may still take.
func dial(ctx context.Context, cfg *Config, endpoint string, handler cache.EventHandler, extend func(time.Duration)) (*session, error) {
	l, err := openLink(ctx, endpoint, cfg.TLS, cfg.Deadline, extend)
	if err != nil {
		return nil, err
	}
	s := &session{endpoint: endpoint, schema: &cfg.Schema, limit: cfg.Deadline, link: l, lost: l.ended}
	if err := s.load(ctx, cfg, handler); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// load creates the client and its copy of the database.
func (s *session) load(ctx context.Context, cfg *Config, handler cache.EventHandler) error {
	before, schema, err := s.link.handshake(ctx, s.schema)
	if err != nil {
		return err
	}
	s.schema = schema
	endpoint, err := s.link.serve(before)
	if err != nil {
		return err
	}
	log := logr.New(&cacheGuard{cfg.Log, &s.loaded, s.link.cut})
	c, err := client.NewOVSDBClient(s.schema.Model, client.WithLogger(&log), client.WithEndpoint(endpoint))
	if err != nil {
		return err
	}
	s.client = c
	ctx, done := s.link.patient(ctx, firstByte*s.limit)
	defer done()
	if err := s.connect(ctx); err != nil {
		return err
	}
	s.cache, s.db = c.Cache(), c.Schema()
	if s.cache == nil {
		return errDisconnected
	}
	s.cache.AddEventHandler(handler)
	if err := s.answered(ctx, func(ctx context.Context) error { _, err := c.Monitor(ctx, s.monitor(cfg.Where)); return err }); err != nil {
		return fmt.Errorf("monitor database %s: %w", s.schema.Model.Name(), err)
	}
	s.loaded.Store(true)
	return nil
}

// connect connects the client to the link. It fails when the server closes the connection.
func (s *session) connect(ctx context.Context) error {
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	defer s.link.hold(func() { lost(errDisconnected) })()
	if err := s.client.Connect(ctx); err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	return nil
}

// monitor requests all tables at once. It uses monitor_cond, because the library swallows cache errors of update3,
// and a new client could not use monitor_cond_since anyway.
func (s *session) monitor(where conditions) *client.Monitor {
	m := s.client.NewMonitor()
	m.Method = ovsdb.ConditionalMonitorRPC
	for table := range s.schema.Tables {
		m.Tables = append(m.Tables, client.TableMonitor{
			Table: table, Fields: s.schema.monitoredColumns(table), Conditions: where[table],
		})
	}
	return m
}

// closePatience bounds the wait for the end of a client.
const closePatience = time.Second

// close ends a session. It cuts the link first, because a call that the server does not accept may hold the client's
// own lock. A client that still does not end is abandoned, so that the next connection does not wait for a deadlock
// in the library.
func (s *session) close() {
	s.link.cut()
	if s.client == nil {
		return
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.client.Close()
	}()
	select {
	case <-closed:
	case <-time.After(closePatience):
	}
}

// echo checks the connection within the deadline.
func (s *session) echo(ctx context.Context) error {
	ctx, done := s.link.patient(ctx, s.limit)
	defer done()
	return s.answered(ctx, s.client.Echo)
}

// answered makes a call that returns with its reply or with the end of the link, never earlier. libovsdb reads the
// replies to Monitor and Echo even if the call was cancelled, while its reader may still be filling them in.
// Therefore the end of ctx ends the session. A call that does not return when its link ends is abandoned, as in
// close.
func (s *session) answered(ctx context.Context, call func(context.Context) error) error {
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = call(context.WithoutCancel(ctx))
	}()
	select {
	case <-ended:
		return err
	case <-ctx.Done():
		s.link.cut()
	}
	select {
	case <-ended:
	case <-time.After(closePatience):
	}
	return context.Cause(ctx)
}

// transact runs the operations in one transaction. The error is errDisconnected if it is unknown whether they were
// committed, and an operation's error if the server refused them. index is then the number of that operation.
func (s *session) transact(ctx context.Context, ops ...ovsdb.Operation) (results []ovsdb.OperationResult, index int, err error) {
	ctx, done := s.link.patient(ctx, s.limit)
	defer done()
	return s.call(ctx, ops)
}

// read runs a transaction of selects, whose reply may be large.
func (s *session) read(ctx context.Context, ops ...ovsdb.Operation) ([]ovsdb.OperationResult, error) {
	ctx, done := s.link.patient(ctx, firstByte*s.limit)
	defer done()
	results, _, err := s.call(ctx, ops)
	return results, err
}

func (s *session) call(ctx context.Context, ops []ovsdb.Operation) (results []ovsdb.OperationResult, index int, err error) {
	results, err = s.client.Transact(ctx, ops...)
	if err != nil {
		return nil, -1, fmt.Errorf("%w: %w", errDisconnected, cmp.Or(context.Cause(ctx), err))
	}
	if index, err := refusal(results, ops); err != nil {
		return results, index, err
	}
	if len(results) < len(ops) {
		return results, -1, fmt.Errorf("%w: %d results for %d operations", errDisconnected, len(results), len(ops))
	}
	return results, -1, nil
}

// row returns a copy of a cached row, or nil. An empty uuid means the only row of the table.
func (s *session) row(table, uuid string) model.Model {
	rows := s.cache.Table(table)
	if rows == nil {
		return nil
	}
	if uuid != "" {
		return rows.Row(uuid)
	}
	for id := range rows.RowsShallow() {
		return rows.Row(id)
	}
	return nil
}

func (s *session) hasRow(table, uuid string) bool {
	rows := s.cache.Table(table)
	if rows == nil {
		return false
	}
	if uuid == "" {
		return rows.Len() > 0
	}
	return rows.HasRow(uuid)
}

// info maps a model of the table to columns and back.
func (s *session) info(table string, m model.Model) (*mapper.Info, error) {
	dbModel := s.cache.DatabaseModel()
	m = s.schema.served(table, m)
	if reflect.TypeOf(m) != dbModel.Types()[table] {
		return nil, fmt.Errorf("%T is not a row of table %s", m, table)
	}
	return dbModel.NewModelInfo(m)
}
