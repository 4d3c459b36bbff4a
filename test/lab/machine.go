package lab

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/weft-network/weft/test/lab/initd"
	"github.com/weft-network/weft/test/lab/state"
)

// boot starts a machine's init process and records it. The caller waits for the machine's steps through its Client.
func (c *Cluster) boot(s *state.State, m Machine, spec initd.Spec) error {
	specFile := filepath.Join(c.machineDir(m.Name), "spec.json")
	for _, dir := range []string{spec.Scratch, spec.LogDir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := initd.WriteSpec(specFile, spec); err != nil {
		return err
	}
	start := func() error { return c.startInit(s, m, specFile) }
	if err := c.in(m.Name, start); err != nil {
		return fmt.Errorf("start %s: %w", m.Name, err)
	}
	return nil
}

// startInit runs on a thread in the machine's network namespace, which the process inherits. The other namespaces
// are new. The process waits for a byte until it is recorded, so that Down finds it even if Up is killed.
func (c *Cluster) startInit(s *state.State, m Machine, specFile string) error {
	logFile := c.LogFile(m.Name, "init")
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	listening, notify, err := os.Pipe()
	if err != nil {
		return err
	}
	defer listening.Close()
	cmd := exec.Command(c.initProgram(), specFile)
	cmd.Dir, cmd.Env = "/", c.environment()
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, []*os.File{notify}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}
	goAhead, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	err = errors.Join(cmd.Start(), notify.Close())
	if err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // reaps it if it ends during this process's life
	p, err := state.NewProcess(m.Name, cmd.Process.Pid)
	if err != nil {
		return err
	}
	if err := s.AddProcess(p); err != nil {
		return err
	}
	if _, err := goAhead.Write([]byte{1}); err != nil {
		return err
	}
	if _, err := io.ReadFull(listening, make([]byte, 1)); err != nil {
		return fmt.Errorf("init ended immediately: see %s", logFile)
	}
	return nil
}

func (c *Cluster) initProgram() string { return filepath.Join(c.Dir, "lab-init") }

// awaitBoot waits until all steps of a machine are done.
func (c *Cluster) awaitBoot(machine string) error {
	client, err := c.Init(machine)
	if err != nil {
		return err
	}
	defer client.Close()
	return client.Booted()
}

// Kill sends SIGKILL to a daemon of a machine. init restarts it.
func (c *Cluster) Kill(machine, daemon string) error {
	return c.order(machine, func(init *initd.Client) error { return init.Signal(daemon, syscall.SIGKILL) })
}

// Stop ends a daemon with a signal and keeps it down until Start.
func (c *Cluster) Stop(machine, daemon string, sig syscall.Signal) error {
	return c.order(machine, func(init *initd.Client) error { return init.Stop(daemon, sig) })
}

// Start starts a stopped daemon.
func (c *Cluster) Start(machine, daemon string) error {
	return c.order(machine, func(init *initd.Client) error { return init.Start(daemon) })
}

// Daemons returns the status of a machine's daemons.
func (c *Cluster) Daemons(machine string) (daemons []initd.Status, err error) {
	err = c.order(machine, func(init *initd.Client) error { daemons, err = init.Status(); return err })
	return daemons, err
}

func (c *Cluster) order(machine string, give func(*initd.Client) error) error {
	client, err := c.Init(machine)
	if err != nil {
		return err
	}
	defer client.Close()
	return give(client)
}
