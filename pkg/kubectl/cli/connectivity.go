package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-network/weft/pkg/kubectl/connectivity"
)

// connectivityCommand holds the flags of the command check connectivity.
type connectivityCommand struct {
	cluster  *cluster
	nodes    []string
	outside  []string
	skip     []string
	junit    string
	keep     bool
	timeout  time.Duration
	lasting  time.Duration
	interval time.Duration
	format   format
}

const connectivityLong = `Test the network with real packets, between pods that this command creates.

Each node gets two pods in a new namespace. They run Weft's own image, which every node has, so
nothing is pulled, and satisfy the Pod Security level "restricted". The groups of the matrix:

  pod       TCP and UDP between pods, on the same and on other nodes
  service   a cluster IP
  nodeport  node ports of all nodes, from pods and from nodes
  dns       names of a service and of a headless service
  headless  a connection to a headless service by its name
  node      nodes to pods and to a cluster IP
  mtu       the largest packet that is not fragmented has the size of the link's MTU
  outside   TCP to the targets of --outside
  policy    NetworkPolicies: one denies, another admits a part

Each family that the pods have is tested. What fails is named with the verdict of "kubectl weft
trace". The namespace is removed at the end, also after Ctrl-C.

With --for, the pods send datagrams all the time instead, and the command counts those that are
lost in each direction, for example during an upgrade. The first Ctrl-C ends the count.

This requires permission to create namespaces, pods, services and network policies, and for
"kubectl exec" in the pods and in Weft's own.

Exit codes: 0 everything passed, 1 something failed or was lost, 2 an error.`

// mostNodes is how many nodes are tested unless --nodes names them. The matrix grows with the square.
const mostNodes = 8

func newConnectivity(target *cluster) *cobra.Command {
	k := &connectivityCommand{cluster: target}
	c := &cobra.Command{
		Use:   "connectivity",
		Short: "Test the network with packets between pods, services, nodes and the outside",
		Long:  connectivityLong,
		Example: `  kubectl weft check connectivity
  kubectl weft check connectivity --nodes n1,n2 --outside 192.0.2.10:443
  kubectl weft check connectivity --junit connectivity.xml -o json > connectivity.json
  kubectl weft check connectivity --for 10m`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := k.checkCount(c); err != nil {
				return err
			}
			return k.run(c)
		},
	}
	flags := c.Flags()
	flags.StringSliceVar(&k.nodes, "nodes", nil, fmt.Sprintf("nodes to test (default: the first %d that are ready)", mostNodes))
	flags.StringSliceVar(&k.outside, "outside", nil, "targets outside the cluster, HOST:PORT, that accept TCP connections")
	flags.StringSliceVar(&k.skip, "skip", nil, "groups to leave out, such as dns in a cluster without it")
	flags.StringVar(&k.junit, "junit", "", "file for a JUnit report")
	flags.BoolVar(&k.keep, "keep", false, "keep the namespace, to run the commands that the report proposes")
	flags.DurationVar(&k.timeout, "timeout", time.Minute, "time for the pods to start, and for a policy to reach all nodes")
	flags.DurationVar(&k.lasting, "for", 0, "count lost datagrams for this time instead of testing the matrix")
	flags.DurationVar(&k.interval, "interval", 100*time.Millisecond, "time between two datagrams of a direction, with --for")
	k.format.bind(c)
	completeFlag(c, "nodes", target.completing(unlimited, completion.nodes))
	completeWords(c, "skip", groupNames()...)
	return c
}

func groupNames() (names []string) {
	for _, g := range connectivity.Groups() {
		names = append(names, string(g))
	}
	return names
}

// leastInterval is the shortest time between two datagrams of a direction.
const leastInterval = 10 * time.Millisecond

// checkCount returns an error for a wrong --for, and for flags of the other of the command's two tests.
func (k *connectivityCommand) checkCount(c *cobra.Command) error {
	if !c.Flags().Changed("for") {
		return given(c, "interval", "for")
	}
	for _, other := range []string{"skip", "outside"} {
		if c.Flags().Changed(other) {
			return fmt.Errorf("--%s has no effect with --for, which only counts datagrams between pods", other)
		}
	}
	return positive("for", k.lasting)
}

func (k *connectivityCommand) check() error {
	if err := errors.Join(k.format.check(), positive("timeout", k.timeout)); err != nil {
		return err
	}
	if k.interval < leastInterval {
		return fmt.Errorf("--interval %s: want %s or more", k.interval, leastInterval)
	}
	for _, g := range k.skip {
		if !slices.Contains(groupNames(), g) {
			return fmt.Errorf("--skip %q: want some of %v", g, groupNames())
		}
	}
	for _, target := range k.outside {
		host, port, err := net.SplitHostPort(target)
		if number, notNumber := strconv.ParseUint(port, 10, 16); err != nil || notNumber != nil || number == 0 || host == "" {
			return fmt.Errorf("--outside %q: want HOST:PORT, such as 192.0.2.10:443 or [2001:db8::10]:443", target)
		}
	}
	return nil
}

// run tests, removes the namespace, and reports.
func (k *connectivityCommand) run(c *cobra.Command) error {
	if err := k.check(); err != nil {
		return err
	}
	// Requests for the removal and for the last counts must outlive the command's context.
	outliving := *k.cluster
	outliving.command = context.WithoutCancel(c.Context())
	b, err := newBed(c.Context(), k, &outliving, newProgress(c.ErrOrStderr()))
	if err != nil {
		return err
	}
	report, err := b.test(c.Context())
	if removal := b.remove(context.WithoutCancel(c.Context())); removal != nil {
		err = errors.Join(err, fmt.Errorf("remove namespace %s: %w", b.Namespace, removal))
	}
	if err != nil {
		return err
	}
	if k.junit != "" {
		if err := writeJUnit(k.junit, report); err != nil {
			return err
		}
	}
	if err := k.format.write(c.OutOrStdout(), report, report.Text); err != nil {
		return err
	}
	return different(report.Failed)
}

func writeJUnit(path string, report connectivity.Report) error {
	text, err := report.JUnit()
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// progress writes what happens to standard error. On a terminal, the current step is one line that changes.
type progress struct {
	out      io.Writer
	terminal bool
	began    time.Time
}

func newProgress(out io.Writer) *progress {
	file, ok := out.(*os.File)
	if ok {
		info, err := file.Stat()
		ok = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return &progress{out, ok, time.Now()}
}

// say writes a line.
func (p *progress) say(text string, args ...any) {
	start := map[bool]string{true: "\r\x1b[K"}[p.terminal]
	fmt.Fprintf(p.out, "%s%5.1f s  %s\n", start, time.Since(p.began).Seconds(), fmt.Sprintf(text, args...))
}

// now replaces the line of a terminal.
func (p *progress) now(text string, args ...any) {
	if p.terminal {
		fmt.Fprintf(p.out, "\r\x1b[K%5.1f s  %s", time.Since(p.began).Seconds(), fmt.Sprintf(text, args...))
	}
}
