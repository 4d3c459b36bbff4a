//go:build e2e

package load

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/weft-network/weft/test/bench/probe"
	"github.com/weft-network/weft/test/poll"
)

// patience bounds how long the database may take to have the expected rows.
const patience = 5 * time.Minute

// tokens matches the names of the load's objects and the addresses of endpoints. Rows of any controller contain
// them.
var tokens = regexp.MustCompile(`(?:pod|svc|pol|nod)-[0-9]{6}|10\.25[0-5]\.[0-9]+\.[0-9]+`)

// addressOf matches a port's address.
var addressOf = regexp.MustCompile(`\b10(?:\.[0-9]+){3}\b`)

// watched are the columns, by table, in which the observer searches tokens.
var watched = map[string][]string{
	"Logical_Switch_Port": {"name", "addresses"}, "Logical_Switch": {"name"}, "Load_Balancer": {"name", "vips"}, "ACL": {"external_ids"},
}

// observer records when the database had each object, with its own monitor.
type observer struct {
	*probe.Conn

	mu    sync.Mutex
	rows  map[string]string        // row UUID -> name of the object that the row is of
	came  map[string]time.Time     // "<table> <token>" -> when it first appeared
	went  map[string]time.Time     // the same key -> when its row was deleted
	wait  map[string]chan struct{} // the same key; with prefix "-" for the deletion
	ports int                      // number of pod ports
	many  map[int]chan struct{}    // number of ports -> closed when reached
	given map[string]string        // pod -> its address
}

// observe returns when the observer has the whole database.
func observe(endpoint string) (*observer, error) {
	o := &observer{rows: map[string]string{}, came: map[string]time.Time{}, went: map[string]time.Time{},
		wait: map[string]chan struct{}{}, many: map[int]chan struct{}{}, given: map[string]string{}}
	var err error
	if o.Conn, err = probe.Dial(endpoint, o.update); err != nil {
		return nil, err
	}
	monitored := map[string]any{}
	for table, columns := range watched {
		monitored[table] = map[string]any{"columns": columns}
	}
	first, err := o.Call("monitor_cond", "OVN_Northbound", nil, monitored)
	if err != nil {
		return nil, err
	}
	return o, o.take(first)
}

func (o *observer) update(params json.RawMessage) {
	var parts []json.RawMessage
	if json.Unmarshal(params, &parts) == nil && len(parts) == 2 {
		_ = o.take(parts[1])
	}
}

// take processes <table-updates2> (ovsdb-server(7), 4.1.14).
func (o *observer) take(updates json.RawMessage) error {
	now := time.Now()
	var tables map[string]map[string]map[string]json.RawMessage
	if err := json.Unmarshal(updates, &tables); err != nil {
		return fmt.Errorf("update: %w", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for table, rows := range tables {
		for uuid, change := range rows {
			for kind, text := range change {
				o.row(now, table, uuid, kind, text)
			}
		}
	}
	for n, enough := range o.many {
		if o.ports >= n {
			close(enough)
			delete(o.many, n)
		}
	}
	return nil
}

// row processes one row. The caller holds o.mu.
func (o *observer) row(now time.Time, table, uuid, kind string, text []byte) {
	if kind == "delete" {
		if token := o.rows[uuid]; token != "" {
			o.went[table+" "+token] = now
			o.wake("-" + table + " " + token)
			delete(o.rows, uuid)
			o.count(table, token, -1)
		}
		return
	}
	for _, found := range tokens.FindAll(text, -1) {
		token := string(found)
		key := table + " " + token
		if o.rows[uuid] == "" && strings.Contains(token, "-") { // a name, not an address
			o.rows[uuid] = token
			if table == "Logical_Switch_Port" {
				o.given[token] = string(addressOf.Find(text))
			}
			o.count(table, token, 1)
		}
		if _, ok := o.came[key]; !ok {
			o.came[key] = now
		}
		o.wake(key)
	}
}

func (o *observer) count(table, token string, n int) {
	if table == "Logical_Switch_Port" && token[:3] == "pod" {
		o.ports += n
	}
}

func (o *observer) wake(key string) {
	if c := o.wait[key]; c != nil {
		close(c)
		delete(o.wait, key)
	}
}

// when waits until a table has a token.
func (o *observer) when(table, token string) (time.Time, error) {
	return o.whenIn(o.came, table+" "+token, table+" "+token)
}

// whenGone waits until a row of an object is deleted.
func (o *observer) whenGone(table, token string) (time.Time, error) {
	return o.whenIn(o.went, table+" "+token, "-"+table+" "+token)
}

func (o *observer) whenIn(times map[string]time.Time, key, event string) (time.Time, error) {
	o.mu.Lock()
	at, ok := times[key]
	if ok {
		o.mu.Unlock()
		return at, nil
	}
	c := o.wait[event]
	if c == nil {
		c = make(chan struct{})
		o.wait[event] = c
	}
	o.mu.Unlock()
	select {
	case <-c:
	case <-time.After(patience):
		return at, fmt.Errorf("%s did not happen within %s", event, patience)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return times[key], nil
}

// whenPorts waits until the database has n pod ports.
func (o *observer) whenPorts(n int) error {
	o.mu.Lock()
	if o.ports >= n {
		o.mu.Unlock()
		return nil
	}
	c := o.many[n]
	if c == nil {
		c = make(chan struct{})
		o.many[n] = c
	}
	o.mu.Unlock()
	select {
	case <-c:
		return nil
	case <-time.After(patience):
		return fmt.Errorf("%d ports did not appear within %s; there are %d", n, patience, o.portCount())
	}
}

// address returns the address given to a pod.
func (o *observer) address(pod string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.given[pod]
}

func (o *observer) portCount() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ports
}

// whenPortsLeft waits until the database has at most n pod ports.
func (o *observer) whenPortsLeft(ctx context.Context, n int) error {
	return poll.Until(ctx, patience, func() error {
		if ports := o.portCount(); ports > n {
			return fmt.Errorf("%d pod ports remain, want %d", ports, n)
		}
		return nil
	})
}
