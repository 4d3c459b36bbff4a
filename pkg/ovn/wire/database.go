package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

// The databases' names in their schemas.
const (
	Northbound = "OVN_Northbound"
	Southbound = "OVN_Southbound"
	// ServerDatabase is the database in which ovsdb-server describes its databases (ovsdb-server(5)).
	ServerDatabase = "_Server"
)

// Database is a connection to a database by OVSDB's protocol (RFC 7047). It keeps values in wire format.
type Database struct {
	Name, remote string
	conn         net.Conn

	mu      sync.Mutex
	next    int
	waiting map[int]chan<- message // request ID -> receiver of the reply
	ended   error

	locked chan struct{} // closed when the server grants the lock after the reply to lock
}

// message is a request, a notification or a reply.
type message struct {
	ID     any             `json:"id"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
}

// Dial connects to the first of the comma-separated remotes ("unix:PATH" or "tcp:ADDRESS:PORT") that serves the
// database.
func Dial(ctx context.Context, remotes, name string) (*Database, error) {
	var failed error
	for remote := range strings.SplitSeq(remotes, ",") {
		d, err := dialOne(ctx, remote, name)
		if err == nil {
			return d, nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, failed
}

func dialOne(ctx context.Context, remote, name string) (*Database, error) {
	network, address, _ := strings.Cut(remote, ":")
	if network != "unix" && network != "tcp" {
		return nil, fmt.Errorf("invalid remote %q: want unix:PATH or tcp:ADDRESS:PORT", remote)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", name, err)
	}
	d := &Database{Name: name, remote: remote, conn: conn, waiting: map[int]chan<- message{}, locked: make(chan struct{})}
	go d.read()
	var names []string
	if err := d.call(ctx, &names, "list_dbs"); err != nil {
		d.Close()
		return nil, err
	}
	for _, served := range names {
		if served == name {
			return d, nil
		}
	}
	d.Close()
	return nil, fmt.Errorf("%s does not serve database %s", remote, name)
}

// Close closes the connection and so releases its lock.
func (d *Database) Close() error { return d.conn.Close() }

// read delivers replies and answers the server's probes until the connection ends.
func (d *Database) read() {
	decoder := json.NewDecoder(d.conn)
	decoder.UseNumber()
	granted := sync.OnceFunc(func() { close(d.locked) })
	for {
		var m message
		if err := decoder.Decode(&m); err != nil {
			d.end(err)
			return
		}
		switch m.Method {
		case "echo":
			if err := d.write(message{ID: m.ID, Result: m.Params, Error: json.RawMessage("null")}); err != nil {
				d.end(err)
				return
			}
		case "locked":
			granted()
		case "":
			d.deliver(m)
		}
	}
}

func (d *Database) deliver(m message) {
	number, _ := m.ID.(json.Number)
	id, err := number.Int64()
	if err != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if reply := d.waiting[int(id)]; reply != nil {
		delete(d.waiting, int(id))
		reply <- m
	}
}

func (d *Database) end(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = err
	for id, reply := range d.waiting {
		delete(d.waiting, id)
		close(reply)
	}
}

func (d *Database) write(m any) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = d.conn.Write(text) // a single call, so that concurrent writes do not mix
	return err
}

// call sends a request and decodes its result.
func (d *Database) call(ctx context.Context, result any, method string, params ...any) error {
	reply := make(chan message, 1)
	d.mu.Lock()
	if d.ended != nil {
		d.mu.Unlock()
		return d.lost()
	}
	id := d.next
	d.next++
	d.waiting[id] = reply
	d.mu.Unlock()
	if err := d.write(map[string]any{"id": id, "method": method, "params": append([]any{}, params...)}); err != nil {
		return fmt.Errorf("database %s at %s: %w", d.Name, d.remote, err)
	}
	select {
	case <-ctx.Done():
		return fmt.Errorf("database %s at %s: %s: %w", d.Name, d.remote, method, context.Cause(ctx))
	case m, ok := <-reply:
		if !ok {
			return d.lost()
		}
		if len(m.Error) > 0 && string(m.Error) != "null" {
			return fmt.Errorf("database %s at %s: %s: %s", d.Name, d.remote, method, m.Error)
		}
		return Decode(m.Result, result)
	}
}

func (d *Database) lost() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return fmt.Errorf("database %s at %s: connection lost: %w", d.Name, d.remote, d.ended)
}

// Schema returns the database's schema from the server.
func (d *Database) Schema(ctx context.Context) (json.RawMessage, error) {
	var schema json.RawMessage
	return schema, d.call(ctx, &schema, "get_schema", d.Name)
}

// Tables returns the names of the tables in a schema.
func Tables(schema json.RawMessage) ([]string, error) {
	var s struct {
		Tables map[string]json.RawMessage `json:"tables"`
	}
	if err := json.Unmarshal(schema, &s); err != nil {
		return nil, fmt.Errorf("cannot parse the schema: %w", err)
	}
	names := make([]string, 0, len(s.Tables))
	for name := range s.Tables {
		names = append(names, name)
	}
	return names, nil
}

// Lock acquires a lock of the server (RFC 7047 §4.1.8). It waits until the current holder releases the lock or ctx
// ends. A connection may acquire only one lock, once, and holds it until Close.
func (d *Database) Lock(ctx context.Context, name string) error {
	var got struct {
		Locked bool `json:"locked"`
	}
	if err := d.call(ctx, &got, "lock", name); err != nil || got.Locked {
		return err
	}
	select {
	case <-d.locked:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("cannot get lock %s of database %s: %w", name, d.Name, context.Cause(ctx))
	}
}

// Transact runs operations in one transaction and returns the rows that each of them selected.
func (d *Database) Transact(ctx context.Context, operations ...Operation) ([][]Row, error) {
	params := []any{d.Name}
	for _, o := range operations {
		params = append(params, o)
	}
	var results []*struct {
		Rows    []Row  `json:"rows"`
		Error   string `json:"error"`
		Details string `json:"details"`
	}
	if err := d.call(ctx, &results, "transact", params...); err != nil {
		return nil, err
	}
	rows := make([][]Row, len(results))
	for i, r := range results {
		if r == nil {
			continue // not run, because an earlier operation failed
		}
		if r.Error != "" {
			what := "commit"
			if i < len(operations) {
				what = fmt.Sprintf("%s %s", operations[i]["op"], operations[i]["table"])
			}
			return nil, fmt.Errorf("database %s: %s: %w", d.Name, what, &refusal{r.Error, r.Details})
		}
		rows[i] = r.Rows
	}
	return rows, nil
}

// refusal is the server's error for an operation.
type refusal struct{ reason, details string }

func (r *refusal) Error() string { return strings.TrimSuffix(r.reason+": "+r.details, ": ") }

// TimedOut reports whether err is the timeout of a wait operation.
func TimedOut(err error) bool {
	refused, ok := errors.AsType[*refusal](err)
	return ok && refused.reason == "timed out"
}

// AwaitNumber returns when a column of the selected row has reached a number. It waits by wait operations, which the
// server ends when the column changes.
func (d *Database) AwaitNumber(ctx context.Context, table string, where []any, column string, least int64) error {
	for {
		results, err := d.Transact(ctx, Select(table, where))
		if err != nil {
			return err
		}
		if len(results[0]) != 1 {
			return fmt.Errorf("database %s: table %s has %d matching rows, want 1", d.Name, table, len(results[0]))
		}
		have := results[0][0].Number(column)
		if have >= least {
			return nil
		}
		if _, err := d.Transact(ctx, Await(table, where, "!=", time.Hour.Milliseconds(), Row{column: have})); err != nil {
			return fmt.Errorf("%s is %d, want %d: %w", column, have, least, err)
		}
	}
}
