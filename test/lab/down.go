package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weft-network/weft/test/lab/state"
)

// killTimeout bounds how long the kernel may take to end all processes of a machine.
const killTimeout = 30 * time.Second

// Down removes everything that Up created, in whatever state the lab is. It is no error if the lab does not exist.
func (c *Cluster) Down(context.Context) error {
	release, err := c.lock()
	if err != nil {
		return err
	}
	defer release()
	s, err := c.loadState()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := remove(s); err != nil {
		return fmt.Errorf("lab %s: %w", c.Name, err) // the record stays, so that Down can be retried
	}
	if err := c.removeDir(); err != nil {
		return err
	}
	fmt.Fprintf(c.out, "lab %s is down (%.1fs)\n", c.Name, time.Since(began).Seconds())
	return nil
}

// remove continues after a failure, so that a retry has less to do. Processes go first because they hold the rest.
func remove(s *state.State) error {
	var kills errgroup.Group
	for _, p := range s.Processes {
		kills.Go(func() error { return p.Kill(killTimeout) })
	}
	failed := kills.Wait()
	for _, name := range s.Netns {
		failed = errors.Join(failed, deleteNetns(name))
	}
	return errors.Join(failed, removeCgroups(s.Cgroups))
}

// removeDir renames the folder first, so that a compiler that survives a killed Up cannot write to it any more.
// Nothing is mounted there, because the mounts belong to the machines.
func (c *Cluster) removeDir() error {
	gone := c.Dir + ".gone"
	if err := os.RemoveAll(gone); err != nil {
		return err
	}
	if err := os.Rename(c.Dir, gone); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(gone)
}
