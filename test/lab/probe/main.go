// Command probe runs in test pods: a server that reports its name, and a client that tries targets.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{Use: "probe", Short: "Test connections over the pod network", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(newServe(), newCheck(), newStream())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}
