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
	"time"

	"github.com/weft-network/weft/pkg/install/beside"
	"github.com/weft-network/weft/pkg/ovn/unixctl"
	"github.com/weft-network/weft/pkg/ovn/wire"
)

// swapSuffix is appended to the name of the replaced file.
const swapSuffix = ".before-rebuild"

// dialPause is the time between two attempts to reach a starting server. Nothing announces its start.
const dialPause = 50 * time.Millisecond

// target is a live database: its file, and the server that has it open.
type target struct {
	name, file, remote string
	control            string // of the server
	start              time.Duration
}

// check returns an error if the server has another file open, because the server would not find the new file at its
// next start, or if the end of the server would end this process. It returns nil if the server does not run or its open files are not
// visible.
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
		return nil // no permission to see its open files
	}
	file, err := filepath.EvalSymlinks(t.file)
	if err != nil {
		file = t.file // deleted while the server had it open
	}
	for _, descriptor := range descriptors {
		open, err := os.Readlink(descriptor)
		switch {
		case err != nil || strings.TrimSuffix(open, " (deleted)") != file:
		case pid == 1:
			return fmt.Errorf("the server of %s is the first process of this container, whose end would end the command too", t.name)
		default:
			return nil
		}
	}
	return fmt.Errorf("the server of %s (pid %d) does not have %s open", t.name, pid, t.file)
}

// previous returns the new name of the replaced file.
func (t target) previous() string { return t.file + swapSuffix }

// swap replaces the database's file by a new one and makes the server open it. If the server does not serve the new
// file, swap restores the old one, unless no server served that either. global is the UUID of the only row in the new file's global
// table; it identifies the file. had reports whether a file was replaced, which restore would put back.
func (t target) swap(ctx context.Context, fresh, globalTable, global string) (had bool, err error) {
	worked := t.serves(ctx, "", "") == nil
	if had, err = t.keep(fresh); err != nil {
		return had, err
	}
	if err := os.Rename(fresh, t.file); err != nil {
		return had, err
	}
	if err = t.reopen(ctx, globalTable, global); err == nil || !had || !worked {
		return had, err
	}
	// The undo must not be interrupted by what ended ctx.
	return had, errors.Join(err, t.restore(context.WithoutCancel(ctx)))
}

// keep links the present file to its previous name, and gives its owner and mode to the new file. had is false if
// there is no file.
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

// own gives a file the owner of another file, because the server may not run as root.
func own(file string, like fs.FileInfo, mode fs.FileMode) error {
	if err := beside.Own(file, like); err != nil {
		return err
	}
	return os.Chmod(file, mode)
}

// restore puts the replaced file back in its place.
func (t target) restore(ctx context.Context) error {
	if err := os.Rename(t.previous(), t.file); err != nil {
		return err
	}
	return t.reopen(ctx, "", "")
}

// reopen makes the server open the new file at the database's path, and returns when the server serves it.
func (t target) reopen(ctx context.Context, globalTable, global string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, t.start, fmt.Errorf("not within %s", t.start))
	defer cancel()
	if err := t.reloadFile(ctx); err != nil {
		return err
	}
	for {
		err := t.serves(ctx, globalTable, global)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is in place, but its server does not serve it (%w): check that a supervisor restarts the server",
				t.file, errors.Join(err, context.Cause(ctx)))
		case <-time.After(dialPause):
		}
	}
}

// reloadFile makes a server that accepts databases by command close the file and open it again. A server with
// --config-file refuses that, so reloadFile ends it, and its supervisor restarts it. A server that does not run is
// left to its supervisor too.
func (t target) reloadFile(ctx context.Context) error {
	control, err := unixctl.Dial(ctx, t.control)
	if err != nil {
		return nil // the server does not run
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
	_ = control.AwaitEnd() // an error only means that the connection ended in another way
	return nil
}

// serves returns nil if the server answers and has the wanted row. Without a globalTable it only checks for an
// answer.
func (t target) serves(ctx context.Context, globalTable, global string) error {
	d, err := wire.Dial(ctx, t.remote, t.name)
	if err != nil {
		return err
	}
	defer d.Close()
	if globalTable == "" {
		return nil
	}
	results, err := d.Transact(ctx, wire.Select(globalTable, wire.Is("_uuid", wire.UUIDOf(global))))
	if err != nil {
		return err
	}
	if len(results[0]) == 0 {
		return fmt.Errorf("%s serves a file other than %s", t.remote, t.file)
	}
	return nil
}
