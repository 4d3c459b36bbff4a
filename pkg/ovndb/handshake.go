package ovndb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// errNoQuorum means that a member of a cluster is cut off from the others, or a relay from its source. It would serve
// old rows and commit nothing.
var errNoQuorum = errors.New("the server is not connected to a majority of its cluster, or as a relay to its source")

// SchemaError means that the server's database lacks tables or columns that Weft uses, because it is too old.
type SchemaError struct {
	Database string
	Version  string   // of the server's schema
	Missing  []string // "table" or "table.column", sorted
}

// Error implements error.
func (e *SchemaError) Error() string {
	return fmt.Sprintf("the server's schema of %s has version %s, which is too old: it lacks %s", e.Database,
		e.Version, strings.Join(e.Missing, ", "))
}

// call is the JSON-RPC of RFC 7047 §4, for requests before a client exists.
type call struct {
	stream  io.ReadWriter
	decoder *json.Decoder
	id      int
}

func newCall(stream io.ReadWriter) *call {
	return &call{stream: stream, decoder: json.NewDecoder(stream)}
}

// do sends a request and waits for the reply. It skips other messages of the server, such as an echo.
func (c *call) do(method string, result any, params ...any) error {
	c.id++
	if err := json.NewEncoder(c.stream).Encode(map[string]any{"id": c.id, "method": method, "params": params}); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	for {
		var reply struct {
			ID     any             `json:"id"`
			Method string          `json:"method"`
			Result json.RawMessage `json:"result"`
			Error  any             `json:"error"`
		}
		if err := c.decoder.Decode(&reply); err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		if reply.Method != "" || reply.ID != float64(c.id) {
			continue
		}
		if reply.Error != nil {
			return fmt.Errorf("%s: %v", method, reply.Error)
		}
		if err := json.Unmarshal(reply.Result, result); err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		return nil
	}
}

// serving returns an error unless the server has the database and is connected: in a cluster to a majority, as a relay
// to its source (ovsdb-server(5), _Server).
func (c *call) serving(database string) error {
	var results []struct {
		Rows  []struct{ Connected bool }
		Error string
	}
	err := c.do("transact", &results, "_Server", map[string]any{"op": "select", "table": "Database",
		"where": []any{[]any{"name", "==", database}}, "columns": []string{"connected"}})
	switch {
	case err != nil:
		return err
	case len(results) != 1 || results[0].Error != "":
		return fmt.Errorf("the server does not report its databases: %v", results)
	case len(results[0].Rows) == 0:
		return fmt.Errorf("the server has no database %s", database)
	case !results[0].Rows[0].Connected:
		return errNoQuorum
	}
	return nil
}

// handshake checks that a new connection is usable. It returns the bytes that the server sent after its replies, and
// the part of the schema that the server has.
func (l *link) handshake(ctx context.Context, schema *Schema) (io.Reader, *Schema, error) {
	stop := context.AfterFunc(ctx, l.cut)
	defer stop()
	if err := l.server.SetDeadline(time.Now().Add(min(l.limit, dialTimeout))); err != nil {
		return nil, nil, err
	}
	c := newCall(l.server)
	if err := c.serving(schema.Model.Name()); err != nil {
		return nil, nil, err
	}
	var db ovsdb.DatabaseSchema
	if err := c.do("get_schema", &db, schema.Model.Name()); err != nil {
		return nil, nil, err
	}
	schema, err := schema.servedBy(db)
	if err != nil {
		return nil, nil, err
	}
	if err := checkSchema(schema.Model, db); err != nil {
		return nil, nil, err
	}
	return c.decoder.Buffered(), schema, l.server.SetDeadline(time.Time{})
}

// checkSchema returns a SchemaError if the server lacks a table or column of the model. Additional columns are
// harmless, because only columns of the model are requested.
func checkSchema(m model.ClientDBModel, db ovsdb.DatabaseSchema) error {
	var missing []string
	for table, rowType := range m.Types() {
		served := db.Table(table)
		if served == nil {
			missing = append(missing, table)
			continue
		}
		for column := range columnsOf(rowType) {
			if served.Column(column) == nil {
				missing = append(missing, table+"."+column)
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return &SchemaError{Database: m.Name(), Version: db.Version, Missing: missing}
}

// Await probes the servers in turn until one serves the database, in a cluster with a majority. It returns the last
// failure when ctx ends.
func Await(ctx context.Context, schema Schema, endpoints []string, security TLS) error {
	backoff := newBackoff()
	for {
		var failures []error
		for _, endpoint := range endpoints {
			err := probe(ctx, &schema, endpoint, security)
			if err == nil {
				return nil
			}
			failures = append(failures, fmt.Errorf("%s: %w", endpoint, err))
		}
		if backoff.wait(ctx); ctx.Err() != nil {
			return errors.Join(failures...)
		}
	}
}

func probe(ctx context.Context, schema *Schema, endpoint string, security TLS) error {
	l, err := openLink(ctx, endpoint, security, dialTimeout, func(time.Duration) {})
	if err != nil {
		return err
	}
	defer l.cut()
	_, _, err = l.handshake(ctx, schema)
	return err
}
