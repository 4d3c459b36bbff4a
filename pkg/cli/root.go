// Package cli holds the commands of kubectl-weft. A command asks the operator that leads, through "kubectl exec"'s API: who may
// execute in the operator's pod may ask, and nothing listens on the network.
package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitOK = iota
	exitError
)

// Run executes the command line and returns the exit code.
func Run(args []string, in io.Reader, out, errs io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	if err := root.Execute(); err != nil {
		fmt.Fprintln(errs, "error:", err)
		return exitError
	}
	return exitOK
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "kubectl-weft",
		Short:         "Look into the Weft network, and repair its databases",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newDatabase())
	return root
}
