package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/acllog"
)

// logOptions are the flags of the command log.
type logOptions struct {
	since  time.Duration
	follow bool
	denied bool
	output string
	about  []string // "demo" or "demo/web-0"; none: everything
}

func newLog(target *cluster) *cobra.Command {
	var o logOptions
	c := &cobra.Command{Use: "log [NAMESPACE | NAMESPACE/POD]...", Short: "Show what policies decided, and of whose packets",
		Long: `Show what policies decided, and of whose packets, from the logs of all agents: by default of the last 10 minutes, oldest first.

  kubectl weft log demo --denied
  kubectl weft log demo/web-0 --follow

Only policies are logged whose namespace, or which themselves, have the annotation ` + networkv1alpha1.ACLLoggingAnnotation + `:

  kubectl annotate namespace demo ` + networkv1alpha1.ACLLoggingAnnotation + `='{"deny": "info"}'

An address is shown by the pod or node that has it now, if that was there at the time. Exit codes: 0 all agents were asked, 1 some could not
be, 2 an error.`,
		RunE: func(c *cobra.Command, args []string) error {
			o.about = args
			return showLog(c, target, o)
		}}
	c.Flags().DurationVar(&o.since, "since", 10*time.Minute, "how far back")
	c.Flags().BoolVarP(&o.follow, "follow", "f", false, "go on with what is decided from now on")
	c.Flags().BoolVar(&o.denied, "denied", false, "only what was dropped or rejected")
	c.Flags().StringVarP(&o.output, "output", "o", "", "json: one object a line")
	return c
}

func showLog(c *cobra.Command, target *cluster, o logOptions) error {
	if o.output != "" && o.output != "json" {
		return fmt.Errorf("--output %q: want json", o.output)
	}
	api, err := target.watchClient()
	if err != nil {
		return err
	}
	config, err := target.restConfig()
	if err != nil {
		return err
	}
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	var agents corev1.PodList
	if err := api.List(c.Context(), &agents, client.InNamespace(target.namespace), client.MatchingLabels{networkv1alpha1.ComponentLabel: networkv1alpha1.ComponentAgent}); err != nil {
		return err
	}
	holders, refused, err := readHolders(c.Context(), api)
	if err != nil {
		return err
	}
	for _, err := range refused {
		fmt.Fprintln(c.ErrOrStderr(), "addresses without names:", err)
	}
	w := &logWriter{out: c.OutOrStdout(), holders: holders, options: o}
	missing := readAgents(c.Context(), typed, agents.Items, w)
	if err := w.flush(); err != nil {
		return err
	}
	for _, err := range missing {
		fmt.Fprintln(c.ErrOrStderr(), "error:", err)
	}
	return different(len(missing))
}

// readAgents reads the logs of all agents at once, and returns what went wrong.
func readAgents(ctx context.Context, typed kubernetes.Interface, agents []corev1.Pod, w *logWriter) (missing []error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range agents {
		agent := &agents[i]
		all.Go(func() {
			if err := readAgent(ctx, typed, agent, w); err != nil && ctx.Err() == nil {
				mu.Lock()
				defer mu.Unlock()
				missing = append(missing, fmt.Errorf("the log of %s on node %s: %w", agent.Name, agent.Spec.NodeName, err))
			}
		})
	}
	all.Wait()
	return missing
}

func readAgent(ctx context.Context, typed kubernetes.Interface, agent *corev1.Pod, w *logWriter) error {
	seconds := max(1, int64(w.options.since.Seconds()))
	stream, err := typed.CoreV1().Pods(agent.Namespace).GetLogs(agent.Name, &corev1.PodLogOptions{Container: "agent", Follow: w.options.follow, SinceSeconds: &seconds}).Stream(ctx)
	if err != nil {
		return err
	}
	defer stream.Close()
	lines := bufio.NewReader(stream)
	for {
		line, err := lines.ReadString('\n')
		if d, ok := decisionIn(line); ok {
			w.add(agent.Spec.NodeName, d)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// decisionIn reads a line of an agent's log.
func decisionIn(line string) (d acllog.Decision, ok bool) {
	if !strings.Contains(line, acllog.Key) { // most do not
		return d, false
	}
	var said map[string]json.RawMessage
	if json.Unmarshal([]byte(line), &said) != nil || said[acllog.Key] == nil {
		return d, false
	}
	return d, json.Unmarshal(said[acllog.Key], &d) == nil
}

// told is a decision with the node on which it was made.
type told struct {
	acllog.Decision
	Node            string `json:"node"`
	SourceName      string `json:"sourceName,omitempty"`
	DestinationName string `json:"destinationName,omitempty"`
}

// logWriter writes decisions: as they come when the log is followed, and else in order at the end.
type logWriter struct {
	out     io.Writer
	holders holders
	options logOptions

	mu    sync.Mutex
	all   []told
	wrong error
}

func (w *logWriter) add(node string, d acllog.Decision) {
	t := told{Decision: d, Node: node, SourceName: w.holders.at(d.Source, d.Time), DestinationName: w.holders.at(d.Destination, d.Time)}
	if !w.options.wants(t) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.options.follow {
		w.write(t)
		return
	}
	w.all = append(w.all, t)
}

func (w *logWriter) flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortStableFunc(w.all, func(a, b told) int { return a.Time.Compare(b.Time) })
	for _, t := range w.all {
		w.write(t)
	}
	return w.wrong
}

func (w *logWriter) write(t told) {
	text := []byte(t.line())
	if w.options.output == "json" {
		text, _ = json.Marshal(t) // a struct of plain values
	}
	_, err := fmt.Fprintf(w.out, "%s\n", text)
	w.wrong = errors.Join(w.wrong, err)
}

// wants reports whether a decision is one that was asked for.
func (o logOptions) wants(t told) bool {
	if o.denied && t.Verdict != "drop" && t.Verdict != "reject" {
		return false
	}
	concerns := func(about string) bool {
		for _, name := range []string{t.SourceName, t.DestinationName} {
			if name == about || strings.HasPrefix(name, about+"/") {
				return true
			}
		}
		return strings.HasSuffix(t.Policy, " "+about) || strings.Contains(t.Policy, " "+about+"/")
	}
	return len(o.about) == 0 || slices.ContainsFunc(o.about, concerns)
}
