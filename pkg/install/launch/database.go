package launch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
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
