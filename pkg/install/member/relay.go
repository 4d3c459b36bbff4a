package member

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"
)

// RelayFiles is the base name of the files of a relay's server in the run folder.
const RelayFiles = "ovnsb_relay"

// CheckRelay returns an error unless this host's relay has a copy of the southbound database and is connected to it, or
// was within the last 30 s (ovsdb-server(5), _Server).
func CheckRelay(ctx context.Context, run string) error {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "unix", filepath.Join(run, RelayFiles+".sock"))
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(dialTimeout)); err != nil {
		return err
	}
	request := map[string]any{"id": 1, "method": "transact", "params": []any{"_Server", map[string]any{
		"op": "select", "table": "Database", "where": []any{[]any{"name", "==", Databases["sb"]}}, "columns": []string{"connected"}}}}
	if err := json.NewEncoder(conn).Encode(request); err != nil {
		return err
	}
	var reply struct {
		Result []struct {
			Rows []struct{ Connected bool }
		}
	}
	if err := json.NewDecoder(conn).Decode(&reply); err != nil {
		return fmt.Errorf("the relay's reply: %w", err)
	}
	if len(reply.Result) != 1 || len(reply.Result[0].Rows) != 1 || !reply.Result[0].Rows[0].Connected {
		return errors.New("the relay is not connected to the southbound database")
	}
	return nil
}
