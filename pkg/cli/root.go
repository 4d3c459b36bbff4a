// Package cli holds the commands of kubectl-weft. A command asks the operator that leads, through "kubectl exec"'s API: who may
// execute in the operator's pod may ask, and nothing listens on the network.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes, as those of kubectl diff.
const (
	exitOK        = iota
	exitDifferent // what was asked for was done, and something differs or is wrong
	exitError
)

// errDifferent ends a command with exitDifferent; it has said everything already.
var errDifferent = errors.New("something differs")

// Run executes the command line and returns the exit code.
func Run(args []string, in io.Reader, out, errs io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := root.ExecuteContext(ctx); {
	case err == nil:
		return exitOK
	case errors.Is(err, errDifferent):
		return exitDifferent
	default:
		fmt.Fprintln(errs, "error:", err)
		return exitError
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "kubectl-weft",
		Short:         "Look into the Weft network, and repair its databases",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	target := &cluster{}
	target.bind(root.PersistentFlags())
	root.AddCommand(newStatus(target), newPlan(target), newDrift(target), newCheck(target), newLog(target), newBundle(target), newDatabase(target))
	return root
}
