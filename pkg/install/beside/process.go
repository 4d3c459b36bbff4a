package beside

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// Programs are the paths of OVN's and Open vSwitch's programs. A bare name is looked up in PATH.
type Programs struct{ OVSDBServer, OVSDBTool, Northd string }

// Server is an ovsdb-server of this process with one database, on a private socket.
type Server struct {
	File, Remote, Control string
	process               *Process
	input                 io.Closer // closing it ends the server
}

// StartServer creates an empty database from a schema and serves it. dir holds the sockets; its path must be short,
// because the path of a unix socket has at most 107 bytes.
func StartServer(ctx context.Context, p Programs, dir, name, file, schema string) (*Server, error) {
	create := exec.CommandContext(ctx, p.OVSDBTool, "create", file, schema)
	if text, err := create.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s create %s: %w: %s", p.OVSDBTool, file, err, strings.TrimSpace(string(text)))
	}
	socket, config := filepath.Join(dir, name+".sock"), filepath.Join(dir, name+".json")
	// Without a configuration file, the server creates a temporary one in /tmp, which containers cannot write.
	if err := writeConfig(config, "punix:"+socket, file); err != nil {
		return nil, err
	}
	s := &Server{File: file, Remote: "unix:" + socket, Control: filepath.Join(dir, name+".ctl")}
	// The server runs the command once it listens, and ends when the command ends: when this process's end of the
	// pipe to its input is closed.
	process, err := newProcess(dir, name, p.OVSDBServer, "-vconsole:off", "-vsyslog:off", "--log-file="+filepath.Join(dir, name+".log"),
		"--config-file="+config, "--unixctl="+s.Control, "--run=echo ready; exec cat")
	if err != nil {
		return nil, err
	}
	ready, err := process.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if s.input, err = process.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := process.cmd.Start(); err != nil {
		return nil, err
	}
	s.process = process
	line, err := bufio.NewReader(ready).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "ready" {
		s.Stop()
		return nil, process.Failure(errors.New("ended while starting"))
	}
	return s, nil
}

// writeConfig writes ovsdb-server's configuration file (ovsdb-server(5)).
func writeConfig(path, remote, file string) error {
	type named map[string]struct{}
	text, err := json.Marshal(map[string]named{"remotes": {remote: {}}, "databases": {file: {}}})
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

// Stop ends the server, which closes the database's file. It may be called again.
func (s *Server) Stop() {
	_ = s.input.Close()
	s.process.wait()
}

// Process is a program that runs until stop, or until this process ends.
type Process struct {
	cmd  *exec.Cmd
	name string
	log  string
	wait func() // returns when the program has ended
}

func newProcess(dir, name, program string, args ...string) (*Process, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), "OVN_RUNDIR="+dir, "OVS_RUNDIR="+dir)
	if err := endsWithUs(cmd); err != nil {
		return nil, fmt.Errorf("run %s: %w", program, err)
	}
	// The exit code does not matter, because callers check the program's results.
	return &Process{cmd: cmd, name: name, log: filepath.Join(dir, name+".log"), wait: sync.OnceFunc(func() { _ = cmd.Wait() })}, nil
}

// StartNorthd runs an ovn-northd between two databases. It calls ended when the program has ended.
func StartNorthd(p Programs, dir, nb, sb string, ended func()) (*Process, error) {
	const name = "northd"
	northd, err := newProcess(dir, name, p.Northd, "-vconsole:off", "-vsyslog:off", "--log-file="+filepath.Join(dir, name+".log"),
		"--ovnnb-db="+nb, "--ovnsb-db="+sb, "--unixctl="+filepath.Join(dir, name+".ctl"))
	if err != nil {
		return nil, err
	}
	if err := northd.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { northd.wait(); ended() }()
	return northd, nil
}

// Stop ends the program. It may be called again.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // an error only means that it has already ended
	p.wait()
}

// Failure adds the end of the program's log to an error.
func (p *Process) Failure(err error) error {
	text, _ := os.ReadFile(p.log)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return fmt.Errorf("%s: %w; its log ends with %q", p.name, err, strings.Join(lines[max(0, len(lines)-3):], "; "))
}
