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

	"github.com/weft-network/weft/pkg/unixctl"
)

// FileKind says what a database's file is; empty: there is none.
type FileKind string

// Kinds of files.
const (
	Standalone FileKind = "standalone"
	Clustered  FileKind = "clustered"
)

// FileState is what a database's file says of itself.
type FileState struct {
	Kind FileKind `json:"kind,omitempty"`
	// Cluster and Server are IDs, of one that is clustered.
	Cluster string `json:"cluster,omitempty"`
	Server  string `json:"server,omitempty"`
	// Address is the server's own, for the others.
	Address string `json:"address,omitempty"`
}

// DatabaseFile is a database's, in the folder of the databases.
func DatabaseFile(data, database string) string { return filepath.Join(data, "ovn"+database+"_db.db") }

// ReadFile looks at a database's file (ovsdb(5)): its first line has its kind, and the first record of a clustered one, which may be long, its IDs.
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
		return state, fmt.Errorf("%s is no database", path)
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

// look asks the server of a database how it is. One that does not answer, or whose database is no cluster's, is no error: then its file says what it is.
func look(ctx context.Context, run, data, database string) (DatabaseState, error) {
	var state DatabaseState
	if text, err := unixctl.Call(ctx, control(run, database), "cluster/status", Databases[database]); err == nil {
		state.read(text)
		return state, nil
	}
	file, err := ReadFile(DatabaseFile(data, database))
	state.File = file
	return state, err
}

// listed is a line of "Servers:": "    m1 (4e65 at unix:/run/m1) (self) next_index=3".
var listed = regexp.MustCompile(`^\s+\S+ \(([0-9a-f]+) at ([^)]+)\)`)

// read takes what "cluster/status" prints.
func (s *DatabaseState) read(text string) {
	leader, servers := "", false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if servers {
			if m := listed.FindStringSubmatch(line); m != nil {
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

// inBrackets takes the ID from "4e65 (4e653294-daf0-429e-bcca-af34aea435f9)".
func inBrackets(value string) string {
	_, id, _ := strings.Cut(value, "(")
	return strings.TrimSuffix(id, ")")
}

// Check is an error while a server on this host is not connected to its cluster.
func Check(ctx context.Context, run, data string) error {
	var failed []error
	for database := range Databases {
		state, err := look(ctx, run, data, database)
		if err == nil && !state.Connected {
			err = fmt.Errorf("%s: not connected: %q", database, state.Status)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}
