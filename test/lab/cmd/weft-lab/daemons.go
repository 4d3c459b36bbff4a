package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/test/lab"
)

func newStatus(open opener) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "List the machines and their daemons",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c, err := open()
			if err != nil {
				return err
			}
			all, err := c.Machines()
			if err != nil {
				return err
			}
			for _, m := range all {
				if err := printDaemons(c, m); err != nil {
					return err
				}
			}
			fmt.Println("kubeconfig", c.KubeConfig())
			return nil
		},
	}
}

func printDaemons(c *lab.Cluster, m lab.Machine) error {
	fmt.Printf("%s %s %s\n", m.Name, m.IPv4.Addr(), m.IPv6.Addr())
	daemons, err := c.Daemons(m.Name)
	if err != nil {
		return err
	}
	for _, d := range daemons {
		state := "runs"
		switch {
		case !d.Wanted:
			state = "stopped"
		case d.PID == 0:
			state = "down"
		}
		fmt.Printf("  %-24s %-8s pid %-6d started %d times\n", d.Name, state, d.PID, d.Starts)
	}
	return nil
}

func newLogs(open opener) *cobra.Command {
	return &cobra.Command{
		Use:   "logs MACHINE DAEMON",
		Short: "Print a daemon's log, for example: logs n1 kubelet",
		Args:  cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := open()
			if err != nil {
				return err
			}
			text, err := os.ReadFile(c.LogFile(args[0], args[1]))
			if err != nil {
				return err
			}
			_, err = os.Stdout.Write(text)
			return err
		},
	}
}

func newKill(open opener) *cobra.Command {
	return forDaemon(open, "kill", "Send SIGKILL to a daemon; it restarts", (*lab.Cluster).Kill)
}

func newStart(open opener) *cobra.Command {
	return forDaemon(open, "start", "Start a stopped daemon", (*lab.Cluster).Start)
}

func newStop(open opener) *cobra.Command {
	name := "SIGTERM"
	cmd := forDaemon(open, "stop", "End a daemon and keep it down", func(c *lab.Cluster, machine, daemon string) error {
		sig := unix.SignalNum(name)
		if sig == 0 {
			return fmt.Errorf("unknown signal %q", name)
		}
		return c.Stop(machine, daemon, sig)
	})
	cmd.Flags().StringVar(&name, "signal", name, "the signal")
	return cmd
}

func forDaemon(open opener, verb, short string, do func(c *lab.Cluster, machine, daemon string) error) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " MACHINE DAEMON",
		Short: short,
		Args:  cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := open()
			if err != nil {
				return err
			}
			return do(c, args[0], args[1])
		},
	}
}
