package launch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/weft-network/weft/pkg/install/member"
)

// Database is the file that ovsdb-server opens.
type Database struct {
	File, Schema string
	// Insert is the first transaction of a new database. If it is empty, the database starts without rows.
	Insert string
	// Member creates or joins the cluster of a clustered database. It is nil for a standalone database.
	Member *Member
}

// prepare creates the database, or converts an existing database to the image's schema.
func (d Database) prepare(ctx context.Context) error {
	if d.Member != nil {
		return d.Member.prepare(ctx, d)
	}
	if err := d.standAlone(ctx); err != nil {
		return err
	}
	if _, err := os.Stat(d.File); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, d.convert(ctx))
	}
	// Create the file under another name, so that an interrupted start leaves no database without its first
	// transaction.
	unfinished := d.File + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	if _, err := ovsdbTool(ctx, "create", unfinished, d.Schema); err != nil {
		return err
	}
	if d.Insert != "" {
		if _, err := ovsdbTool(ctx, "transact", unfinished, d.Insert); err != nil {
			return err
		}
	}
	return os.Rename(unfinished, d.File)
}

// standAlone turns a file of a cluster into a standalone database with the same rows. It does so only if the stored order
// says that the cluster has no other server, because another server could have later rows. member.Server compacted the file before it
// stored that order.
func (d Database) standAlone(ctx context.Context) error {
	file, err := member.ReadFile(d.File)
	if err != nil || file.Kind != member.Clustered {
		return err
	}
	data := filepath.Dir(d.File)
	order, err := member.ReadOrder(member.OrderFile(data))
	if err != nil {
		return err
	}
	alone := false
	for key, wanted := range order.Databases {
		alone = alone || wanted.Alone && member.DatabaseFile(data, key) == d.File
	}
	if !alone {
		return fmt.Errorf("the file belongs to cluster %s, which may have other members with later rows; "+
			"set databases.members to 3, in the spec of the ClusterNetwork or of the zone, to serve it", file.Cluster)
	}
	unlock, err := lock(ctx, d.File)
	if err != nil {
		return err
	}
	defer unlock()
	unfinished := d.File + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	if _, err := ovsdbTool(ctx, "cluster-to-standalone", unfinished, d.File); err != nil {
		return err
	}
	// It reads all records, so that a database that no server could read never replaces the file.
	if _, err := ovsdbTool(ctx, "compact", unfinished); err != nil {
		return fmt.Errorf("the file of cluster %s was not converted: %w", file.Cluster, err)
	}
	return os.Rename(unfinished, d.File)
}

// lock waits for the lock that a server holds while it has the database file open (lib/lockfile.c of Open vSwitch).
func lock(ctx context.Context, database string) (unlock func(), err error) {
	path := filepath.Join(filepath.Dir(database), "."+filepath.Base(database)+".~lock~")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go func() {
		done <- syscall.FcntlFlock(file.Fd(), syscall.F_SETLKW, &syscall.Flock_t{Type: syscall.F_WRLCK})
	}()
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("a server still has the file open: %w", ctx.Err())
	case err = <-done:
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return func() { file.Close() }, nil
}

// convert updates the database to the image's schema if the schemas differ. It fails while a server has the database
// open, because the server holds its lock.
func (d Database) convert(ctx context.Context) error {
	answer, err := ovsdbTool(ctx, "needs-conversion", d.File, d.Schema)
	if err != nil || strings.TrimSpace(answer) != "yes" {
		return err
	}
	_, err = ovsdbTool(ctx, "convert", d.File, d.Schema)
	return err
}

func ovsdbTool(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "ovsdb-tool", args...)
	out, err := cmd.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(failed.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("ovsdb-tool %s: %w", args[0], err)
	}
	return string(out), nil
}
