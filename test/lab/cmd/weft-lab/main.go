// Command weft-lab brings up a whole Kubernetes cluster on one machine: real API server, kubelets, containerd, OVN and
// packets, in namespaces. Run it inside the repository.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	if err := newRoot().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "weft-lab:", err)
		os.Exit(1)
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "weft-lab",
		Short:         "A Kubernetes cluster with OVN on one machine",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newTools())
	return root
}
