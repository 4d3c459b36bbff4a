// Command peer is the other half of the end-to-end tests. It runs inside pods, where it answers calls, keeps a
// connection open, and sends packets that a well-behaved program would not send.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Ports on which serve listens, for both families.
const (
	httpPort = 8080
	echoPort = 7000 // TCP and UDP
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{Use: "peer", Short: "Be tested", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(newServe(), newFrame(), newDatagram(), newSocket(), newPing(), newListen(), newTake(), newCall(),
		newCallAll(), newResolve(), newTrace(), newBulk(), newNames(), newTunnel(), newAnswers(),
		newReceive(), newSendTo(), newHold(), newTally(), newSteady())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}
