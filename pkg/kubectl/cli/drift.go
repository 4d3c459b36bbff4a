package cli

import (
	"github.com/spf13/cobra"

	"github.com/weft-network/weft/pkg/process/admin"
)

// query is a command that queries the operator and takes no arguments.
type query struct {
	cluster *cluster
	format  format
}

func (q *query) command(use, short, long, example string, run func(c *cobra.Command, o *operator) error) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Long: long, Example: example, Args: noArguments}
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := q.format.check(); err != nil {
			return err
		}
		o, err := q.cluster.findOperator(c.Context())
		if err != nil {
			return err
		}
		return run(c, o)
	}
	q.format.bind(c)
	return c
}

func newDrift(target *cluster) *cobra.Command {
	q := &query{cluster: target}
	return q.command("drift", "Show where the database differs from the desired state",
		`Show where the OVN northbound database differs from the operator's desired state, by owner: what the
operator would change to repair it. The command writes nothing. The operator usually repairs drift
before this command can show it; with drift.mode Report in the ClusterNetwork it does not.

Exit codes are those of "kubectl diff": 0 no difference, 1 a difference, more than 1 an error.`,
		`  kubectl weft drift
  kubectl weft drift -o json | jq '.changes[].owner'`,
		func(c *cobra.Command, o *operator) error {
			var answer admin.Changes
			if err := o.query(c.Context(), nil, &answer, "drift"); err != nil {
				return err
			}
			if err := q.format.write(c.OutOrStdout(), answer, func() string { return driftText(answer) }); err != nil {
				return err
			}
			return different(len(answer.Changes))
		})
}

func newCheck(target *cluster) *cobra.Command {
	q := &query{cluster: target}
	c := q.command("check", "Check the invariants of the network",
		`Check the invariants of the network over the whole OVN northbound database and the operator's copy
of the cluster's objects, and compare the operator's copy of the database with a fresh one. The
command writes nothing.

Exit codes: 0 all invariants hold, 1 some do not, more than 1 an error.`,
		`  kubectl weft check
  kubectl weft check -o json > violations.json
  kubectl weft check connectivity`,
		func(c *cobra.Command, o *operator) error {
			var answer admin.Violations
			if err := o.query(c.Context(), nil, &answer, "check"); err != nil {
				return err
			}
			if err := q.format.write(c.OutOrStdout(), answer, func() string { return checkText(answer) }); err != nil {
				return err
			}
			return different(len(answer.Violations))
		})
	c.AddCommand(newConnectivity(target))
	return c
}

// different returns errDifferent if found is not 0.
func different(found int) error {
	if found > 0 {
		return errDifferent
	}
	return nil
}
