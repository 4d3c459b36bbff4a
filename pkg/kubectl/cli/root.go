// Package cli implements the commands of kubectl-weft. They query the leading operator through the API of "kubectl
// exec". So RBAC on the operator's pod decides who may query it, and the operator needs no port on the network.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The exit codes, which follow kubectl diff.
const (
	exitOK        = iota
	exitDifferent // the command worked, and found a difference or a problem
	exitError     // the command failed, or found no answer
)

// errDifferent ends a command with exitDifferent and without an error message.
var errDifferent = errors.New("something differs")

// errUnknown ends a command that found no answer with exitError and without an error message, because its output says
// why.
var errUnknown = errors.New("unknown")

// discardLog discards client-go's log: its failures are returned as errors, and warnings go to the standard error. klog
// does not permit it while client-go runs, so that only the first Run of a process does it.
var discardLog = sync.OnceFunc(func() { klog.SetLogger(logr.Discard()) })

// Run executes the command line and returns the exit code.
func Run(args []string, in io.Reader, out, errs io.Writer) int {
	discardLog()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal kills a command that does not react to the first
	root := newRoot(ctx, errs)
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	switch err := root.ExecuteContext(ctx); {
	case err == nil:
		return exitOK
	case errors.Is(err, errDifferent):
		return exitDifferent
	case errors.Is(err, errUnknown):
		return exitError
	default:
		fmt.Fprintln(errs, "error:", explain(ctx, err))
		return exitError
	}
}

func newRoot(ctx context.Context, errs io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-weft",
		Short: "Inspect the Weft network and repair its databases",
		Example: `  kubectl weft status
  kubectl weft trace demo/client svc/demo/web
  kubectl weft why demo/web-0`,
		SilenceUsage:      true,
		SilenceErrors:     true,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error { return noEmptyFlags(c) },
	}
	target := newCluster(ctx, errs)
	target.bind(root.PersistentFlags())
	root.AddCommand(newStatus(target), newPlan(target), newDrift(target), newCheck(target), newHistory(target), newTrace(target),
		newWhy(target), newTopology(target), newUI(target), newLint(target), newLog(target), newCapture(target), newBundle(target),
		newDatabase(target), newIP(target), newMigrate(target), newRemove(target))
	completeFlag(root, "namespace", target.completing(unlimited, completion.namespaces))
	return root
}

// noArguments returns an error for any argument. Cobra's own check would call the argument an unknown command.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q: %s", args[0], c.UseLine())
	}
	return nil
}

// noEmptyFlags returns an error for a flag of the command, or -n, that was given without a value, as by an empty variable of a script.
func noEmptyFlags(c *cobra.Command) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		own := c.LocalNonPersistentFlags().Lookup(f.Name) == f || f.Name == "namespace"
		empty := f.Value.String() == ""
		if list, ok := f.Value.(pflag.SliceValue); ok {
			empty = slices.Contains(list.GetSlice(), "") || len(list.GetSlice()) == 0
		}
		if own && empty && err == nil {
			err = fmt.Errorf("--%s has no value: %s", f.Name, f.Usage)
		}
	})
	return err
}

// given returns an error if a flag was given without another that it needs.
func given(c *cobra.Command, flag, needs string) error {
	if c.Flags().Changed(flag) && !c.Flags().Changed(needs) {
		return fmt.Errorf("--%s needs --%s", flag, needs)
	}
	return nil
}

// noPod returns the error for a pod that does not exist. It says what to name instead of the pods' workload.
func noPod(key client.ObjectKey) error {
	if slices.Contains(workloadKinds, strings.ToLower(key.Namespace)) {
		return fmt.Errorf("there is no pod %[1]s, and %[1]s as a workload has no single pod: name one of its pods as NAMESPACE/POD "+
			"(kubectl get pods)", key)
	}
	return fmt.Errorf("there is no pod %s", key)
}

// workloadKinds are the words with which kubectl names the kinds of workloads.
var workloadKinds = []string{"deploy", "deployment", "deployments", "ds", "daemonset", "daemonsets", "sts", "statefulset", "statefulsets",
	"rs", "replicaset", "replicasets", "job", "jobs", "cronjob", "cronjobs", "cj", "svc", "service", "services"}

// positive returns an error for a flag whose duration is not positive.
func positive(flag string, d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("--%s %s: want more than 0, such as 10m", flag, d)
	}
	return nil
}
