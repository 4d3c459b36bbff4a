package rebuild

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/weft-network/weft/pkg/ovn/unixctl"
	"github.com/weft-network/weft/pkg/ovn/wire"
)

// northdLock is the lock of the southbound database that the active ovn-northd holds.
const northdLock = "ovn_northd"

// lockTimeout is how long ovn-northd may take to release the lock after a pause. It may first finish a full
// computation of a large network.
const lockTimeout = 30 * time.Second

// wakeInterval is the time between two commands to a paused ovn-northd.
const wakeInterval = 100 * time.Millisecond

// pauseNorthd pauses every ovn-northd with a control socket in the run directory. It then takes ovn-northd's lock, so
// that no ovn-northd is active elsewhere, and holds it until the southbound server opens the new database. A failure
// resumes each ovn-northd that was running; an ovn-northd that the administrator had paused stays paused.
func (r *rebuild) pauseNorthd(ctx context.Context) (string, error) {
	sockets, err := filepath.Glob(filepath.Join(r.RunDir, "ovn-northd*.ctl"))
	if err != nil {
		return "", err
	}
	for _, socket := range sockets {
		status, err := unixctl.Call(ctx, socket, "status")
		if err != nil {
			continue // a killed ovn-northd leaves its socket behind
		}
		r.northds = append(r.northds, socket)
		if strings.Contains(status, "paused") {
			continue
		}
		r.onFailure("resume ovn-northd", func(ctx context.Context) error { return r.resume(ctx, socket) })
		if err := command(ctx, socket, "pause"); err != nil {
			return "", err
		}
	}
	r.paused = time.Now()
	if r.oldSB != nil {
		if err := r.holdLock(ctx); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d paused", len(r.northds)), nil
}

func command(ctx context.Context, socket, name string) error {
	_, err := unixctl.Call(ctx, socket, name)
	return err
}

// holdLock takes ovn-northd's lock on a connection that ends with the swap. A paused ovn-northd releases the lock
// when it next wakes, which may take half a minute; a command wakes it.
func (r *rebuild) holdLock(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, min(lockTimeout, r.Wait),
		fmt.Errorf("another ovn-northd, which has no control socket in %s, holds the lock: pause it on its host", r.RunDir))
	defer cancel()
	held := make(chan error, 1)
	go func() { held <- r.oldSB.Lock(ctx, northdLock) }()
	ticker := time.NewTicker(wakeInterval)
	defer ticker.Stop()
	for {
		select {
		case err := <-held:
			return err
		case <-ticker.C:
			for _, socket := range r.northds {
				_ = command(ctx, socket, "status") // an ovn-northd that has ended holds no lock
			}
		}
	}
}

// resume resumes an ovn-northd after it has read the current databases. Until it has reconnected, it holds a copy of
// the replaced databases. From that copy it would delete ports and recreate them without their chassis.
func (r *rebuild) resume(ctx context.Context, socket string) error {
	if err := r.awaitCopies(ctx, socket); err != nil {
		return fmt.Errorf("%s stays paused, because it may still hold a copy of the replaced databases: %w", filepath.Base(socket), err)
	}
	return command(ctx, socket, "resume")
}

// awaitCopies returns when an ovn-northd is connected to the replaced databases and has had time to read them. That
// time is measured by reading the databases on new connections, which were opened later than its own.
func (r *rebuild) awaitCopies(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, min(lockTimeout, r.Wait), errors.New("it does not connect to the databases"))
	defer cancel()
	for _, database := range []struct{ remote, name, command string }{
		{r.NB, wire.Northbound, "nb-connection-status"}, {r.SB, wire.Southbound, "sb-connection-status"},
	} {
		if !r.replaced[database.name] {
			continue
		}
		if err := awaitAnswer(ctx, socket, database.command, "connected"); err != nil {
			return err
		}
		d, err := wire.Dial(ctx, database.remote, database.name)
		if err != nil {
			return err
		}
		_, _, err = readAll(ctx, d)
		if err := errors.Join(err, d.Close()); err != nil {
			return err
		}
	}
	return command(ctx, socket, "status") // it processes what it has received before it answers
}

// awaitAnswer repeats a command until its answer is want.
func awaitAnswer(ctx context.Context, socket, command, want string) error {
	ticker := time.NewTicker(wakeInterval)
	defer ticker.Stop()
	for {
		answer, err := unixctl.Call(ctx, socket, command)
		if err != nil {
			return err
		}
		if strings.TrimSpace(answer) == want {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// resumeNorthd resumes every ovn-northd, even if it was paused before, because the databases agree again.
// An ovn-northd that has ended meanwhile was restarted and is not paused.
func (r *rebuild) resumeNorthd(ctx context.Context) (string, error) {
	// An ovn-northd that stayed paused may not have seen what an earlier run replaced.
	r.replaced[wire.Northbound], r.replaced[wire.Southbound] = true, true
	var failed error
	resumed := 0
	for _, socket := range r.northds {
		control, err := unixctl.Dial(ctx, socket)
		if err != nil {
			r.report.Notes = append(r.report.Notes, fmt.Sprintf("an ovn-northd ended during the rebuild (%v)", err))
			continue
		}
		control.Close()
		if err := r.resume(ctx, socket); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		resumed++
	}
	r.report.PausedSeconds = time.Since(r.paused).Seconds()
	return fmt.Sprintf("%d resumed", resumed), failed
}
