package ovndbtest

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Server is one ovsdb-server with one database.
type Server struct {
	t      testing.TB
	dir    string
	schema string
	secure string   // address of the TLS listener, or empty
	extra  []string // additional arguments
	source string   // of a relay, which has no file
	proc   *process
}

// Start creates an empty database of the schema ("ovn-nb", "ovn-sb" or "vswitch") and serves it on a unix socket.
func Start(t testing.TB, schema string) *Server {
	t.Helper()
	return StartIn(t, schema, shortDir(t))
}

// StartRelay starts a relay of a server's southbound database. It returns when the relay has a copy.
func StartRelay(t testing.TB, of *Server) *Server {
	t.Helper()
	s := &Server{t: t, dir: shortDir(t), schema: of.schema, source: "relay:OVN_Southbound:" + of.Endpoint()}
	s.RunRelay()
	return s
}

// RunRelay starts a relay again, after Kill. It returns when the relay has a copy.
func (s *Server) RunRelay() {
	s.t.Helper()
	s.Run()
	Command(s.t, "ovsdb-client", "wait", s.Endpoint(), "OVN_Southbound", "connected")
}

// shortDir creates a directory for sockets. A unix socket's path has at most 107 bytes, and t.TempDir contains the
// test's name.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "weft-ovsdb-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// StartIn is Start with the database in the given directory, whose path must be short.
func StartIn(t testing.TB, schema, dir string) *Server {
	t.Helper()
	s := &Server{t: t, dir: dir, schema: schema}
	s.create()
	s.Run()
	return s
}

func (s *Server) create() {
	s.t.Helper()
	Command(s.t, "ovsdb-tool", "create", s.file(), SchemaFile(s.t, s.schema))
}

// File is the database's file, which is its log.
func (s *Server) File() string { return s.file() }

// PID is the server's process; it changes with Run.
func (s *Server) PID() int { return s.proc.cmd.Process.Pid }

func (s *Server) file() string   { return filepath.Join(s.dir, "db") }
func (s *Server) socket() string { return filepath.Join(s.dir, "sock") }

// Endpoint returns the server's OVSDB remote.
func (s *Server) Endpoint() string { return "unix:" + s.socket() }

// Run starts the server, after Kill.
func (s *Server) Run() {
	s.t.Helper()
	args := append([]string{"-vconsole:warn", "--remote=punix:" + s.socket(), "--unixctl=" + filepath.Join(s.dir, "ctl")}, s.extra...)
	restart(s.t, &s.proc, s.dir, "ovsdb-server", append(args, cmp.Or(s.source, s.file()))...)
	s.proc.ready(s.t, s.socket())
}

// Kill ends the server without warning.
func (s *Server) Kill() {
	s.proc.signal(syscall.SIGKILL)
	_ = os.Remove(s.socket())
}

// Stop freezes the server: it keeps its connections and responds to nothing.
func (s *Server) Stop() { _ = s.proc.cmd.Process.Signal(syscall.SIGSTOP) }

// Continue resumes a frozen server.
func (s *Server) Continue() { _ = s.proc.cmd.Process.Signal(syscall.SIGCONT) }

// Empty replaces the database by an empty one. The server must not run.
func (s *Server) Empty() {
	s.t.Helper()
	if err := os.Remove(s.file()); err != nil {
		s.t.Fatal(err)
	}
	s.create()
}

// Transactions counts the records of the database's log without the first, which holds the schema, and without the
// writers' heartbeats.
func (s *Server) Transactions() int {
	s.t.Helper()
	log := s.Log()
	return strings.Count(log, "record ") - 1 - strings.Count(log, `"weft-heartbeat"`)
}

// Log returns the records of the database's log, with their comments.
func (s *Server) Log() string {
	s.t.Helper()
	return Command(s.t, "ovsdb-tool", "show-log", s.file())
}

// Ctl runs ovn-nbctl, ovn-sbctl or ovs-vsctl, by the schema, on the server.
func (s *Server) Ctl(args ...string) string {
	s.t.Helper()
	return ctl(s.t, s.schema, s.Endpoint(), args...)
}

func ctl(t testing.TB, schema, remotes string, args ...string) string {
	t.Helper()
	name := map[string]string{"ovn-nb": "ovn-nbctl", "ovn-sb": "ovn-sbctl", "vswitch": "ovs-vsctl"}[schema]
	if schema == "vswitch" {
		args = append([]string{"--no-wait"}, args...)
	}
	return Command(t, name, append([]string{"--db=" + remotes}, args...)...)
}
