package member

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/weft-network/weft/pkg/ovn/unixctl"
)

// FileKind is the service model of a database file. It is empty without a file.
type FileKind string

// The service models of ovsdb(7).
const (
	Standalone FileKind = "standalone"
	Clustered  FileKind = "clustered"
)

// FileState describes a database file, as its header does.
type FileState struct {
	Kind FileKind `json:"kind,omitempty"`
	// Cluster and Server are UUIDs. They are empty unless Kind is Clustered.
	Cluster string `json:"cluster,omitempty"`
	Server  string `json:"server,omitempty"`
	// Address is this server's raft address.
	Address string `json:"address,omitempty"`
}

// DatabaseFile returns the path of a database's file in the folder of the databases.
func DatabaseFile(data, database string) string { return filepath.Join(data, "ovn"+database+"_db.db") }

// ReadFile reads the header of a database file (ovsdb(5)). The first line holds its kind. The first record of a
// clustered file, which may be long, holds its IDs. A missing file yields the zero FileState.
func ReadFile(path string) (state FileState, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return state, nil
	} else if err != nil {
		return state, err
	}
	defer file.Close()
	reader := bufio.NewReader(file)
	line, err := reader.ReadString('\n')
	if err != nil {
		return state, fmt.Errorf("%s: %w", path, err)
	}
	switch {
	case strings.HasPrefix(line, "OVSDB JSON "):
		return FileState{Kind: Standalone}, nil
	case !strings.HasPrefix(line, "OVSDB CLUSTER "):
		return state, fmt.Errorf("%s is not an OVSDB database", path)
	}
	var header struct {
		Cluster string `json:"cluster_id"`
		Server  string `json:"server_id"`
		Address string `json:"local_address"`
	}
	if err := json.NewDecoder(reader).Decode(&header); err != nil {
		return state, fmt.Errorf("%s: %w", path, err)
	}
	return FileState{Kind: Clustered, Cluster: header.Cluster, Server: header.Server, Address: header.Address}, nil
}

// readState reads the state of a database from its server. Without an answer, or if the database is not clustered, it
// reads the database file.
func readState(ctx context.Context, run, data, database string) (DatabaseState, error) {
	var state DatabaseState
	if text, err := unixctl.Call(ctx, control(run, database), "cluster/status", Databases[database]); err == nil {
		state.parse(text)
		return state, nil
	}
	file, err := ReadFile(DatabaseFile(data, database))
	state.File = file
	return state, err
}

// serverLine matches a line below "Servers:": "    m1 (4e65 at unix:/run/m1) (self) next_index=3".
var serverLine = regexp.MustCompile(`^\s+\S+ \(([0-9a-f]+) at ([^)]+)\)`)

// parse fills s from the output of "cluster/status".
func (s *DatabaseState) parse(text string) {
	leader, servers := "", false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if servers {
			if m := serverLine.FindStringSubmatch(line); m != nil {
				s.Servers = append(s.Servers, Listed{ID: m[1], Address: m[2]})
			}
			continue
		}
		key, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); key {
		case "Cluster ID":
			s.File.Kind, s.File.Cluster = Clustered, inBrackets(value)
		case "Server ID":
			s.File.Server = inBrackets(value)
		case "Address":
			s.File.Address = value
		case "Status":
			s.Status = value
		case "Role":
			s.Leads = value == "leader"
		case "Leader":
			leader = value
		case "Servers":
			servers = true
		}
	}
	s.Connected = s.Status == "cluster member" && leader != "" && leader != "unknown"
}

// inBrackets returns the UUID of "4e65 (4e653294-daf0-429e-bcca-af34aea435f9)".
func inBrackets(value string) string {
	_, id, _ := strings.Cut(value, "(")
	return strings.TrimSuffix(id, ")")
}

// Check returns an error unless the servers of both databases on this host are connected to their clusters.
func Check(ctx context.Context, run, data string) error {
	var failed []error
	for database := range Databases {
		state, err := readState(ctx, run, data, database)
		if err == nil && !state.Connected {
			err = fmt.Errorf("%s is not connected to its cluster: status %q", database, state.Status)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}
