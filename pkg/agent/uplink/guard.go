package uplink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// guardProcess is the process that undoes a move if this process cannot.
type guardProcess struct {
	process *os.Process
	pipe    *os.File // its other end is the guard's standard input
}

// startGuard starts this program again in its own session, so that a signal to this process' group does not reach the
// guard. The guard reads from a pipe, which closes as soon as this process dies.
func startGuard(command []string, l *Ledger) (*guardProcess, error) {
	input, pipe, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer input.Close()
	args := append(append([]string(nil), command...),
		"--link="+l.Snapshot.Link, "--attempt="+l.Attempt, "--timeout="+time.Until(l.Deadline).String())
	process, err := os.StartProcess(args[0], args, &os.ProcAttr{
		Env: os.Environ(), Files: []*os.File{input, os.Stdout, os.Stderr}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		pipe.Close()
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	return &guardProcess{process, pipe}, nil
}

// end closes the pipe and waits for the guard. The guard finds an outcome in the ledger and exits without a change.
func (g *guardProcess) end() error {
	g.pipe.Close()
	_, err := g.process.Wait()
	return err
}

// Guard waits until the input ends or the timeout has passed. The input ends when the moving process has written its
// outcome or has died. Guard then undoes the move if the attempt is not confirmed.
func (m *Mover) Guard(ctx context.Context, link, attempt string, timeout time.Duration, input io.Reader) error {
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, input)
		close(ended)
	}()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	reason := "the agent ended during the move"
	select {
	case <-ctx.Done(): // whoever signals the guard ends the move as well
	case <-ended:
	case <-timer.C:
		reason = "the move was not confirmed in time"
	}
	return m.guardUndo(context.WithoutCancel(ctx), link, attempt, reason)
}

// guardUndo proceeds without the lock if its holder does not release it in time. That process either hangs or undoes the
// same move.
func (m *Mover) guardUndo(ctx context.Context, link, attempt, reason string) error {
	if l, err := m.dir().read(link); err == nil && !isOpen(l, attempt) {
		return nil
	}
	unlock, err := m.lock(ctx, lockTimeout)
	if errors.Is(err, context.DeadlineExceeded) {
		unlock = func() {}
	} else if err != nil {
		return err
	}
	defer unlock()
	l, err := m.dir().read(link)
	if err != nil || !isOpen(l, attempt) {
		return err
	}
	boot, err := m.cfg.BootID()
	if err != nil {
		return err
	}
	if l.Phase == Moving {
		l.Interrupted++
	}
	return m.withSwitch(ctx, func(sw *rows) error { return m.undo(ctx, sw, l, boot, reason) })
}

// isOpen reports whether the attempt has no outcome yet.
func isOpen(l *Ledger, attempt string) bool {
	return l != nil && l.Attempt == attempt && (l.Phase == Moving || l.Phase == Undoing)
}
