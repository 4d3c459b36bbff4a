package rebuild

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/weft-network/weft/pkg/unixctl"
)

// northdLock is the lock of the southbound database that the ovn-northd holds that works.
const northdLock = "ovn_northd"

// lockTimeout is how long an ovn-northd may take to give up the lock after it paused; a full computation of a big network may run.
const lockTimeout = 30 * time.Second

// wakeInterval is the time between two questions to an ovn-northd that pauses.
const wakeInterval = 100 * time.Millisecond

// pauseNorthd pauses every ovn-northd with a control socket in the run directory, and makes sure that none works elsewhere: this
// process then holds their lock, until the southbound server is told to open the new database. What was running goes on after a
// failure; what the administrator had paused stays so.
func (r *rebuild) pauseNorthd(ctx context.Context) (string, error) {
	sockets, err := filepath.Glob(filepath.Join(r.RunDir, "ovn-northd*.ctl"))
	if err != nil {
		return "", err
	}
	for _, socket := range sockets {
		status, err := unixctl.Call(ctx, socket, "status")
		if err != nil {
			continue // one that was killed leaves its socket
		}
		r.northds = append(r.northds, socket)
		if strings.Contains(status, "paused") {
			continue
		}
		r.onFailure("ovn-northd resumes", func(ctx context.Context) error { return r.resume(ctx, socket) })
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

// holdLock takes the lock of those that work, on the connection that ends with the swap. One that pauses gives the lock up when it
// next wakes, which may be half a minute later; a question wakes it.
func (r *rebuild) holdLock(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, min(lockTimeout, r.Wait), fmt.Errorf("held by another ovn-northd, which has no control socket in %s: pause it there", r.RunDir))
	defer cancel()
	held := make(chan error, 1)
	go func() { held <- r.oldSB.lock(ctx, northdLock) }()
	ticker := time.NewTicker(wakeInterval)
	defer ticker.Stop()
	for {
		select {
		case err := <-held:
			return err
		case <-ticker.C:
			for _, socket := range r.northds {
				_ = command(ctx, socket, "status") // one that has ended holds no lock
			}
		}
	}
}

// resume lets one go on that has seen the databases as they are now. While it tries to connect again it still has its copy of those that
// were replaced, and would write what follows from it: rows of ports taken out and made anew, without their chassis.
func (r *rebuild) resume(ctx context.Context, socket string) error {
	if err := r.awaitCopies(ctx, socket); err != nil {
		return fmt.Errorf("%s stays paused, so that it writes nothing that follows from databases of before: %w", filepath.Base(socket), err)
	}
	return command(ctx, socket, "resume")
}

// awaitCopies returns when an ovn-northd is connected to the databases that were replaced and has had the time to read them: as long as it
// takes to read them here, on connections that were made after its own.
func (r *rebuild) awaitCopies(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, min(lockTimeout, r.Wait), errors.New("it does not connect to the databases"))
	defer cancel()
	for _, database := range []struct{ remote, name, question string }{
		{r.NB, northbound, "nb-connection-status"}, {r.SB, southbound, "sb-connection-status"},
	} {
		if !r.replaced[database.name] {
			continue
		}
		if err := awaitAnswer(ctx, socket, database.question, "connected"); err != nil {
			return err
		}
		d, err := dial(ctx, database.remote, database.name)
		if err != nil {
			return err
		}
		_, _, err = readAll(ctx, d)
		if err := errors.Join(err, d.Close()); err != nil {
			return err
		}
	}
	return command(ctx, socket, "status") // it looks at what has come before it answers
}

// awaitAnswer asks until the answer is the wanted one.
func awaitAnswer(ctx context.Context, socket, question, want string) error {
	ticker := time.NewTicker(wakeInterval)
	defer ticker.Stop()
	for {
		answer, err := unixctl.Call(ctx, socket, question)
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

// resumeNorthd lets all go on, those too that were paused before: the databases agree again. One that has ended meanwhile was started
// again by somebody, and does not pause.
func (r *rebuild) resumeNorthd(ctx context.Context) (string, error) {
	r.replaced[northbound], r.replaced[southbound] = true, true // what an earlier run replaced, one that paused all the time may not have seen
	var failed error
	resumed := 0
	for _, socket := range r.northds {
		control, err := unixctl.Dial(ctx, socket)
		if err != nil {
			r.report.Notes = append(r.report.Notes, fmt.Sprintf("an ovn-northd ended meanwhile (%v)", err))
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
