package cli

import (
	"github.com/spf13/cobra"

	"github.com/weft-network/weft/pkg/admin"
)

// question is a command that asks the operator one thing, without arguments.
type question struct {
	cluster *cluster
	format  format
}

func (q *question) command(use, short, long string, run func(c *cobra.Command, o *operator) error) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Long: long, Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
		if err := q.format.check(); err != nil {
			return err
		}
		o, err := q.cluster.findOperator(c.Context())
		if err != nil {
			return err
		}
		return run(c, o)
	}}
	q.format.bind(c)
	return c
}

func newDrift(target *cluster) *cobra.Command {
	q := &question{cluster: target}
	return q.command("drift", "Show where the database differs now from what it should be", `Show where the OVN northbound database differs now from what the operator wants in it, by owner: what it would change to put that
right. It writes nothing. What somebody changes is usually put right before anybody can ask; with ClusterNetwork's drift.mode Report
it stays.

Exit codes are those of "kubectl diff": 0 nothing differs, 1 something does, more than 1 an error.`,
		func(c *cobra.Command, o *operator) error {
			var answer admin.Changes
			if err := o.answer(c.Context(), nil, &answer, "drift"); err != nil {
				return err
			}
			if err := q.format.write(c.OutOrStdout(), answer, func() string { return driftText(answer) }); err != nil {
				return err
			}
			return different(len(answer.Changes))
		})
}

func newCheck(target *cluster) *cobra.Command {
	q := &question{cluster: target}
	return q.command("check", "Look for invariants of the network that do not hold", `Look for invariants of the network that do not hold now, over the whole OVN northbound database and what the operator knows of
Kubernetes, and compare the operator's copy of the database with a fresh one. It writes nothing.

Exit codes: 0 all hold, 1 some do not, more than 1 an error.`,
		func(c *cobra.Command, o *operator) error {
			var answer admin.Violations
			if err := o.answer(c.Context(), nil, &answer, "check"); err != nil {
				return err
			}
			if err := q.format.write(c.OutOrStdout(), answer, func() string { return checkText(answer) }); err != nil {
				return err
			}
			return different(len(answer.Violations))
		})
}

// different is errDifferent if there is anything.
func different(found int) error {
	if found > 0 {
		return errDifferent
	}
	return nil
}
