// Command weft-lab starts a whole Kubernetes cluster on one machine: real API server, kubelets, containerd, OVN and
// packets, in namespaces. Run it inside the repository.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/test/lab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	err := newRoot().ExecuteContext(ctx)
	var child childError
	if errors.As(err, &child) {
		os.Exit(child.ExitCode()) // the child printed the reason
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "weft-lab:", err)
		os.Exit(1)
	}
}

// opener opens the lab that the flags select.
type opener func() (*lab.Cluster, error)

func newRoot() *cobra.Command {
	options := lab.Options{Output: os.Stdout}
	root := &cobra.Command{
		Use:           "weft-lab",
		Short:         "A Kubernetes cluster with OVN on one machine",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&options.Name, "name", os.Getenv("WEFT_LAB"), `name of the lab (default $WEFT_LAB or "weft")`)
	open := func() (*lab.Cluster, error) { return lab.Open(options) }
	root.AddCommand(newTools(), newUp(open), newDown(open), newStatus(open), newExec(open), newShell(open), newKubectl(open),
		newLogs(open), newKill(open), newStop(open), newStart(open), newLoadImage(open))
	return root
}
