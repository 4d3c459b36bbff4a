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

// guardProcess is the process that undoes a move when this one cannot.
type guardProcess struct {
	process *os.Process
	pipe    *os.File // its other end is the guard's standard input
}

// startGuard starts this program again, in a session of its own so that no signal to this one's group ends it. It holds the end of a pipe,
// which tells it of this process' death at once.
func startGuard(command []string, l *Ledger) (*guardProcess, error) {
	input, pipe, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer input.Close()
	args := append(append([]string(nil), command...), "--link="+l.Snapshot.Link, "--attempt="+l.Attempt, "--timeout="+time.Until(l.Deadline).String())
	process, err := os.StartProcess(args[0], args, &os.ProcAttr{
		Env: os.Environ(), Files: []*os.File{input, os.Stdout, os.Stderr}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		pipe.Close()
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	return &guardProcess{process, pipe}, nil
}

// end lets the guard look at the ledger, which says that there is nothing to do, and waits for its end.
func (g *guardProcess) end() error {
	g.pipe.Close()
	_, err := g.process.Wait()
	return err
}

// Guard waits until the input ends, which is when the process that moves the link has written its outcome or died, or the timeout is over.
// A move of this attempt that is not confirmed then is undone.
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
	case <-ctx.Done(): // a signal is meant for the move as well
	case <-ended:
	case <-timer.C:
		reason = "the move was not confirmed in time"
	}
	return m.guardUndo(context.WithoutCancel(ctx), link, attempt, reason)
}

// guardUndo goes on without the lock when who holds it does not end: it does nothing any more, or it undoes the same.
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
