package rebuild

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/weft-network/weft/pkg/unixctl"
)

// swapSuffix is what the name of the file of before has more.
const swapSuffix = ".before-rebuild"

// dialPause is the time between two attempts to reach a server that starts; nobody else is told of its start.
const dialPause = 50 * time.Millisecond

// target is a live database: its file, and the server that has it open.
type target struct {
	name, file, remote string
	control            string // of the server
	start              time.Duration
}

// check refuses a file that is not the one that the server has open: the server would not find the new one at its next start. It
// says nothing where the server does not run or the kernel does not tell.
func (t target) check(ctx context.Context) error {
	control, err := unixctl.Dial(ctx, t.control)
	if err != nil {
		return nil
	}
	defer control.Close()
	pid, err := control.PID()
	if err != nil {
		return nil
	}
	descriptors, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(descriptors) == 0 {
		return nil // not ours to see
	}
	file, err := filepath.EvalSymlinks(t.file)
	if err != nil {
		file = t.file // deleted while the server had it open
	}
	for _, descriptor := range descriptors {
		open, err := os.Readlink(descriptor)
		if err == nil && strings.TrimSuffix(open, " (deleted)") == file {
			return nil
		}
	}
	return fmt.Errorf("the server of %s (pid %d) does not have %s open", t.name, pid, t.file)
}

// previous is the name that the file of before gets.
func (t target) previous() string { return t.file + swapSuffix }

// swap lets a new file take the place of the database's file, and the server open it. If the server does not serve it, the old
// file comes back. global is the UUID of the new file's only row of its global table, by which it is known again. had tells whether
// there was a file before, which restore brings back.
func (t target) swap(ctx context.Context, fresh, globalTable, global string) (had bool, err error) {
	if had, err = t.keep(fresh); err != nil {
		return had, err
	}
	if err := os.Rename(fresh, t.file); err != nil {
		return had, err
	}
	if err = t.reopen(ctx, globalTable, global); err == nil || !had {
		return had, err
	}
	// The way back must not be cut off by what ended the way ahead.
	return had, errors.Join(err, t.restore(context.WithoutCancel(ctx)))
}

// keep links the present file to another name and gives its owner and mode to the new one; had is false if there is no file.
func (t target) keep(fresh string) (had bool, err error) {
	old, err := os.Stat(t.file)
	if errors.Is(err, fs.ErrNotExist) {
		if old, err = os.Stat(filepath.Dir(t.file)); err != nil {
			return false, err
		}
		return false, own(fresh, old, 0o640)
	}
	if err != nil {
		return false, err
	}
	if err := os.Remove(t.previous()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err := os.Link(t.file, t.previous()); err != nil {
		return false, err
	}
	return true, own(fresh, old, old.Mode().Perm())
}

// own gives a file the owner of another: the server may not be root.
func own(file string, like fs.FileInfo, mode fs.FileMode) error {
	if stat, ok := like.Sys().(*syscall.Stat_t); ok {
		if err := os.Chown(file, int(stat.Uid), int(stat.Gid)); err != nil {
			return err
		}
	}
	return os.Chmod(file, mode)
}

// restore puts the file of before in its place again.
func (t target) restore(ctx context.Context) error {
	if err := os.Rename(t.previous(), t.file); err != nil {
		return err
	}
	return t.reopen(ctx, "", "")
}

// reopen makes the server open the file at the database's path, which is another one now, and returns when it serves it.
func (t target) reopen(ctx context.Context, globalTable, global string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, t.start, fmt.Errorf("not within %s", t.start))
	defer cancel()
	if err := t.tellServer(ctx); err != nil {
		return err
	}
	for {
		err := t.serves(ctx, globalTable, global)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is in its place, but its server does not serve it (%w): is it started again when it ends?", t.file, errors.Join(err, context.Cause(ctx)))
		case <-time.After(dialPause):
		}
	}
}

// tellServer lets a server that takes its databases by command close the file and open it again. One that has them by
// --config-file refuses that: it is told to end, and whoever keeps it running starts it again. One that does not run is started by
// the same.
func (t target) tellServer(ctx context.Context) error {
	control, err := unixctl.Dial(ctx, t.control)
	if err != nil {
		return nil // it does not run
	}
	defer control.Close()
	listed, err := control.Call(ctx, "ovsdb-server/list-dbs")
	if err != nil {
		return err
	}
	open := slices.Contains(strings.Fields(listed), t.name)
	if open {
		if _, err := control.Call(ctx, "ovsdb-server/remove-db", t.name); err != nil {
			return endServer(ctx, control)
		}
	}
	if _, err = control.Call(ctx, "ovsdb-server/add-db", t.file); err != nil && !open {
		return endServer(ctx, control)
	}
	return err
}

func endServer(ctx context.Context, control *unixctl.Conn) error {
	if _, err := control.Call(ctx, "exit"); err != nil {
		return err
	}
	_ = control.AwaitEnd() // how it ended does not matter
	return nil
}

// serves is nil if the server answers and has the wanted row; an empty table wants none.
func (t target) serves(ctx context.Context, globalTable, global string) error {
	d, err := dial(ctx, t.remote, t.name)
	if err != nil {
		return err
	}
	defer d.Close()
	if globalTable == "" {
		return nil
	}
	results, err := d.transact(ctx, selectRows(globalTable, is("_uuid", uuidOf(global))))
	if err != nil {
		return err
	}
	if len(results[0]) == 0 {
		return fmt.Errorf("%s serves another file than %s", t.remote, t.file)
	}
	return nil
}
