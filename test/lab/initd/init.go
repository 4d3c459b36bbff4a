package initd

import (
	"fmt"
	"net"
	"net/rpc"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
)

// Main is the init process. It creates the machine, runs its steps and returns only if the start fails. It calls
// listening once clients can connect.
func Main(spec Spec, listening func() error) error {
	listener, err := listen(spec.Control)
	if err != nil {
		return err
	}
	if err := listening(); err != nil {
		return err
	}
	childEnded := make(chan os.Signal, 16)
	signal.Notify(childEnded, syscall.SIGCHLD)
	m := &machine{spec: spec, reaper: newReaper(), daemons: map[string]*daemon{}, booted: make(chan struct{})}
	go m.reaper.serve(childEnded)
	go m.boot()
	server := rpc.NewServer()
	if err := server.RegisterName(serviceName, &service{m}); err != nil {
		return err
	}
	server.Accept(listener)
	return nil
}

// listen runs before the mounts, so that the socket is visible on the host.
func listen(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	return net.Listen("unix", path)
}

// machine is the running state of a Spec.
type machine struct {
	spec   Spec
	reaper *reaper

	mu      sync.Mutex
	daemons map[string]*daemon // by step name
	order   []string

	booted  chan struct{} // closed when the last step is ready, or a step has failed
	bootErr error
}

func (m *machine) boot() {
	defer close(m.booted)
	if err := makeRoot(m.spec); err != nil {
		m.bootErr = fmt.Errorf("%s: %w", m.spec.Hostname, err)
		return
	}
	for _, step := range m.spec.Steps {
		if err := m.run(step); err != nil {
			m.bootErr = fmt.Errorf("%s: %s: %w (log %s)", m.spec.Hostname, step.Name, err, m.logFile(step))
			return
		}
	}
}

func (m *machine) run(step Step) error {
	if step.Daemon {
		m.add(step)
		return awaitReady(step.Ready)
	}
	if step.Unless != "" {
		if _, err := os.Stat(step.Unless); err == nil {
			return nil
		}
	}
	_, ended, err := m.reaper.start(step.Argv, m.spec.Env, m.logFile(step))
	if err != nil {
		return err
	}
	if status := <-ended; status != 0 {
		return fmt.Errorf("%v: %s", step.Argv, describe(status))
	}
	return nil
}

func (m *machine) logFile(step Step) string { return filepath.Join(m.spec.LogDir, step.Name+".log") }

func (m *machine) add(step Step) {
	d := newDaemon(step, m.spec, m.reaper)
	m.mu.Lock()
	m.daemons[step.Name] = d
	m.order = append(m.order, step.Name)
	m.mu.Unlock()
	go d.keep()
}

func (m *machine) daemon(name string) (*daemon, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, ok := m.daemons[name]
	if !ok {
		return nil, fmt.Errorf("%s has no daemon %q (it has %v)", m.spec.Hostname, name, m.order)
	}
	return d, nil
}

func appendLog(path, line string) {
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return // there is no better place to report it
	}
	defer log.Close()
	fmt.Fprintln(log, line)
}
