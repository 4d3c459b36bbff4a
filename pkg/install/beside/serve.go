package beside

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/weft-network/weft/pkg/ovn/wire"
)

// Serve creates a database from a schema in a folder and serves it. sockets is the folder of its sockets.
func Serve(ctx context.Context, p Programs, sockets, folder, name, database string,
	schema json.RawMessage) (*Server, *wire.Database, error) {
	file := filepath.Join(folder, name+".ovsschema")
	if err := os.WriteFile(file, schema, 0o600); err != nil {
		return nil, nil, err
	}
	s, err := StartServer(ctx, p, sockets, name, filepath.Join(folder, name+".db"), file)
	if err != nil {
		return nil, nil, err
	}
	d, err := wire.Dial(ctx, s.Remote, database)
	if err != nil {
		s.Stop()
	}
	return s, d, err
}
