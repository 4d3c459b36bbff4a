package main

import (
	"errors"
	"os"
	"os/exec"

	"github.com/spf13/cobra"
)

func newExec(open opener) *cobra.Command {
	return &cobra.Command{
		Use:   "exec MACHINE -- COMMAND...",
		Short: "Run a command in a machine, such as: exec n1 -- ovs-vsctl show; central is the machine with OVN's databases",
		Args:  cobra.MinimumNArgs(2),
		RunE:  func(cmd *cobra.Command, args []string) error { return inMachine(cmd, open, args[0], args[1:]...) },
	}
}

func newShell(open opener) *cobra.Command {
	return &cobra.Command{
		Use:   "shell MACHINE",
		Short: "Open a shell in a machine, such as: shell n1; central is the machine with OVN's databases",
		Args:  cobra.ExactArgs(1),
		RunE:  func(cmd *cobra.Command, args []string) error { return inMachine(cmd, open, args[0], "bash") },
	}
}

// central is an alias for the machine with OVN's databases, which differs between labs.
const central = "central"

func inMachine(cmd *cobra.Command, open opener, machine string, argv ...string) error {
	c, err := open()
	if err != nil {
		return err
	}
	if machine == central {
		if machine, err = c.Central(cmd.Context()); err != nil {
			return err
		}
	}
	child, err := c.Command(cmd.Context(), machine, argv...)
	if err != nil {
		return err
	}
	return attached(child)
}

func newKubectl(open opener) *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl ARGS...",
		Short:              "Run kubectl as the cluster's administrator",
		DisableFlagParsing: true, // all flags are kubectl's; select another lab with $WEFT_LAB
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && args[0] == "--" {
				args = args[1:]
			}
			c, err := open()
			if err != nil {
				return err
			}
			return attached(c.KubectlCommand(cmd.Context(), args...))
		},
	}
}

// childError is the exit error of a command that had this process's terminal.
type childError struct{ *exec.ExitError }

// attached runs a command with this process's terminal.
func attached(child *exec.Cmd) error {
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := child.Run()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return childError{ended}
	}
	return err
}
