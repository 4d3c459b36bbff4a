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

// logOptions holds the flags of the command log.
type logOptions struct {
	since  time.Duration
	follow bool
	denied bool
	format format
	about  []string // "demo" or "demo/web-0"; empty means everything
}

func newLog(target *cluster) *cobra.Command {
	var o logOptions
	c := &cobra.Command{Use: "log [NAMESPACE | NAMESPACE/POD]...", Short: "Show the decisions of policies and the packets they concern",
		Long: `Show the decisions of policies and the packets they concern, from the logs of all agents: by default
those of the last 10 minutes, oldest first.

Only decisions of policies that have the annotation ` + networkv1alpha1.ACLLoggingAnnotation + `, or whose namespace has it, are logged:

  kubectl annotate namespace demo ` + networkv1alpha1.ACLLoggingAnnotation + `='{"deny": "info"}'

An address is shown by the name of the pod or node that has it now, if that existed at the time.
NAMESPACE/POD may also be a policy. If there is nothing to show, a line on standard error says why.

Exit codes: 0 the logs of all agents were read, 1 some could not be read, 2 an error, such as a
namespace or a pod that does not exist.`,
		Example: `  kubectl weft log demo --denied
  kubectl weft log demo/web-0 --follow`,
		RunE: func(c *cobra.Command, args []string) error {
			o.about = args
			return showLog(c, target, o)
		}}
	c.Flags().DurationVar(&o.since, "since", 10*time.Minute, "show decisions since this long ago")
	c.Flags().BoolVarP(&o.follow, "follow", "f", false, "keep showing new decisions")
	c.Flags().BoolVar(&o.denied, "denied", false, "show only dropped and rejected packets")
	c.Flags().StringVarP((*string)(&o.format), "output", "o", string(formatText), "text, or json with one object per line")
	completeWords(c, "output", string(formatText), string(formatJSON))
	c.ValidArgsFunction = target.completing(unlimited, completion.pods)
	return c
}

func showLog(c *cobra.Command, target *cluster, o logOptions) error {
	if err := errors.Join(o.format.check(), positive("since", o.since)); err != nil {
		return err
	}
	api, typed, err := logClients(target)
	if err != nil {
		return err
	}
	var agents corev1.PodList
	ofAgents := client.MatchingLabels{networkv1alpha1.ComponentLabel: networkv1alpha1.ComponentAgent}
	if err := api.List(c.Context(), &agents, client.InNamespace(target.namespace), ofAgents); err != nil {
		return err
	}
	if len(agents.Items) == 0 {
		return fmt.Errorf("namespace %s has no agent pods: select Weft's namespace with -n, and see kubectl weft status", target.namespace)
	}
	logged := &logged{api: api, about: o.about}
	if err := logged.checkAbout(c.Context()); err != nil {
		return err
	}
	holders, refused, err := readHolders(c.Context(), api)
	if err != nil {
		return err
	}
	for _, err := range refused {
		fmt.Fprintln(c.ErrOrStderr(), "addresses are shown without names:", err)
	}
	if o.follow {
		logged.explainSilence(c.Context(), c.ErrOrStderr(), "")
	}
	w := &logWriter{out: c.OutOrStdout(), holders: holders, options: o}
	missing := readAgents(c.Context(), typed, agents.Items, w)
	if err := w.flush(); err != nil {
		return err
	}
	for _, err := range missing {
		fmt.Fprintln(c.ErrOrStderr(), "error:", err)
	}
	if w.written == 0 && !o.follow {
		logged.explainSilence(c.Context(), c.ErrOrStderr(), "no decision was logged in the last "+o.since.String())
	}
	return different(len(missing))
}

func logClients(target *cluster) (client.Client, kubernetes.Interface, error) {
	api, err := target.watchClient()
	if err != nil {
		return nil, nil, err
	}
	config, err := target.restConfig()
	if err != nil {
		return nil, nil, err
	}
	typed, err := kubernetes.NewForConfig(config)
	return api, typed, err
}

// readAgents reads the logs of all agents concurrently, and returns an error for each log that it could not read.
func readAgents(ctx context.Context, typed kubernetes.Interface, agents []corev1.Pod, w *logWriter) (missing []error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range agents {
		agent := &agents[i]
		all.Go(func() {
			if err := readAgent(ctx, typed, agent, w); err != nil && ctx.Err() == nil {
				mu.Lock()
				defer mu.Unlock()
				missing = append(missing, fmt.Errorf("cannot read the log of %s on node %s: %w", agent.Name, agent.Spec.NodeName, err))
			}
		})
	}
	all.Wait()
	return missing
}

func readAgent(ctx context.Context, typed kubernetes.Interface, agent *corev1.Pod, w *logWriter) error {
	seconds := max(1, int64(w.options.since.Seconds()))
	options := &corev1.PodLogOptions{Container: "agent", Follow: w.options.follow, SinceSeconds: &seconds}
	stream, err := typed.CoreV1().Pods(agent.Namespace).GetLogs(agent.Name, options).Stream(ctx)
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

// decisionIn parses a line of an agent's log. ok is false if the line is not a decision.
func decisionIn(line string) (d acllog.Decision, ok bool) {
	if !strings.Contains(line, acllog.Key) { // avoids parsing most lines
		return d, false
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(line), &fields) != nil || fields[acllog.Key] == nil {
		return d, false
	}
	return d, json.Unmarshal(fields[acllog.Key], &d) == nil
}

// loggedDecision is a decision with its node and the names of its addresses.
type loggedDecision struct {
	acllog.Decision
	Node            string `json:"node"`
	SourceName      string `json:"sourceName,omitempty"`
	DestinationName string `json:"destinationName,omitempty"`
}

// logWriter writes decisions: immediately if the log is followed, else sorted at the end.
type logWriter struct {
	out     io.Writer
	holders holders
	options logOptions

	mu      sync.Mutex
	all     []loggedDecision
	written int
	err     error
}

func (w *logWriter) add(node string, d acllog.Decision) {
	t := loggedDecision{Decision: d, Node: node}
	if !d.OnNetwork() { // the holders have addresses on the cluster network
		t.SourceName, t.DestinationName = w.holders.at(d.Source, d.Time), w.holders.at(d.Destination, d.Time)
	}
	if !w.options.matches(t) {
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
	slices.SortStableFunc(w.all, func(a, b loggedDecision) int { return a.Time.Compare(b.Time) })
	for _, t := range w.all {
		w.write(t)
	}
	return w.err
}

func (w *logWriter) write(t loggedDecision) {
	text := []byte(t.line())
	if w.options.format == formatJSON {
		text, _ = json.Marshal(t) // cannot fail for plain values
	}
	_, err := fmt.Fprintf(w.out, "%s\n", text)
	w.written++
	w.err = errors.Join(w.err, err)
}

// matches reports whether the flags and arguments select a decision.
func (o logOptions) matches(t loggedDecision) bool {
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
