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

// Database is a file that ovsdb-server will open.
type Database struct {
	File, Schema string
	// Insert is a transaction for a database that is made; empty: none.
	Insert string
	// Member is how the database comes to be where it has several; nil: it has one.
	Member *Member
}

// prepare makes the database, or gives one that is there the image's schema.
func (d Database) prepare(ctx context.Context) error {
	if d.Member != nil {
		return d.Member.prepare(ctx, d)
	}
	if _, err := os.Stat(d.File); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, d.convert(ctx))
	}
	// Under another name first: one that was made and not filled is none.
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

// convert gives the database another schema where the image has another. A server that has it open keeps its lock, and so this fails.
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
