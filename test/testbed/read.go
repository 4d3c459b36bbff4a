package testbed

import (
	"context"
	"fmt"
	"strings"
)

// Rows reads one column of a table with one of OVN's ctl programs inside a machine, one string per row.
func (b *Bed) Rows(ctx context.Context, machine, program, table, column string) ([]string, error) {
	out, err := b.Exec(ctx, machine, program, "--timeout=20", "--bare", "--columns="+column, "list", table)
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(out)), nil
}

// Shell runs a script inside a machine and returns its trimmed output.
func (b *Bed) Shell(ctx context.Context, machine, script string, args ...string) (string, error) {
	out, err := b.Exec(ctx, machine, append([]string{"sh", "-c", script, "sh"}, args...)...)
	return strings.TrimSpace(string(out)), err
}

// Number runs a script inside a machine that prints a number.
func (b *Bed) Number(ctx context.Context, machine, script string, args ...string) (n int, err error) {
	out, err := b.Shell(ctx, machine, script, args...)
	if err != nil {
		return 0, err
	}
	if _, err := fmt.Sscan(out, &n); err != nil {
		return 0, fmt.Errorf("%s: %q printed %q, want a number", machine, script, out)
	}
	return n, nil
}
