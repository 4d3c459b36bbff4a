package cli

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"k8s.io/apimachinery/pkg/api/meta"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// goodNodes is the maximum number of nodes without a problem in the output.
const goodNodes = 10

// statusText renders the report.
func statusText(r statusReport) string {
	var b strings.Builder
	if r.Removing != nil {
		b.WriteString(r.Removing.text() + "\n")
	}
	fmt.Fprintf(&b, "The network is %s\n", headline(r))
	if len(r.Areas) > 0 {
		b.WriteByte('\n')
		table(&b, func(w *tabwriter.Writer) {
			fmt.Fprintln(w, "AREA\tSTATE\t")
			for _, a := range r.Areas {
				fmt.Fprintf(w, "%s\t%s\t%s\n", a.Name, a.State, a.Message)
			}
		})
	}
	drawRollout(&b, r.Rollout)
	if len(r.Problems) > 0 {
		b.WriteString("\nProblems, worst first:\n")
	}
	for i, p := range r.Problems {
		fmt.Fprintf(&b, "%2d. %s, %s: %s\n    %s\n", i+1, p.State, p.Reason, p.Object, p.Message)
		if p.NextStep != "" {
			fmt.Fprintf(&b, "    -> %s\n", p.NextStep)
		}
	}
	for _, unread := range r.Unread {
		fmt.Fprintf(&b, "Not read: %s\n", unread)
	}
	drawRefused(&b, r.Refused)
	drawNodes(&b, r.Nodes)
	for i, v := range r.Versions {
		fmt.Fprintf(&b, "%s%s %s", map[bool]string{true: "\nVersions: ", false: ", "}[i == 0], v.Name, v.Version)
	}
	if len(r.Versions) > 0 {
		b.WriteByte('\n')
	}
	return b.String()
}

// stages are the stages of a rollout in their usual order.
var stages = []networkv1alpha1.RolloutStage{
	networkv1alpha1.StagePreflight, networkv1alpha1.StageCanary, networkv1alpha1.StageNodes,
	networkv1alpha1.StageDatabases, networkv1alpha1.StageOperator,
}

// drawRollout renders the progress of a rollout. It is up to date even without an operator, because weft-operands
// writes it.
func drawRollout(b *strings.Builder, r *networkv1alpha1.RolloutStatus) {
	if r == nil || r.State == networkv1alpha1.RolloutComplete {
		return
	}
	words := make([]string, 0, len(stages))
	for _, s := range stages {
		word := strings.ToLower(string(s))
		if s == r.Stage {
			word = "[" + word + "]"
		}
		words = append(words, word)
	}
	fmt.Fprintf(b, "\nRollout of %s: %s\n  %s\n", r.Version, strings.ToLower(string(r.State)), strings.Join(words, " > "))
	const width = 20
	if r.Nodes > 0 {
		done := int(r.NodesDone) * width / int(r.Nodes)
		fmt.Fprintf(b, "  %s%s %d of %d nodes\n", strings.Repeat("#", done), strings.Repeat(".", width-done), r.NodesDone, r.Nodes)
	}
	fmt.Fprintf(b, "  %s: %s\n", r.Object, r.Message)
	if r.Difference != "" {
		fmt.Fprintf(b, "  changes in the northbound database: %s\n", r.Difference)
	}
}

// refusedOfReason is how many objects of a kind and reason drawRefused lists.
const refusedOfReason = 5

// drawRefused lists requests of namespaces that wait or were refused, by reason. They do not make the network unhealthy.
func drawRefused(b *strings.Builder, r *networkv1alpha1.Refusals) {
	if r == nil {
		return
	}
	fmt.Fprintf(b, "\nRequests of namespaces, refused or waiting, of %d objects:\n", r.Total)
	left := int(r.Total)
	for _, of := range r.Reasons {
		left -= int(of.Total)
		fmt.Fprintf(b, "  %s of %d %ss:\n", of.Reason, of.Total, of.Kind)
		drawn := 0
		for _, refusal := range r.First {
			if refusal.Reason == of.Reason && strings.HasPrefix(refusal.Object, of.Kind+"/") && drawn < refusedOfReason {
				fmt.Fprintf(b, "    %s: %s\n", refusal.Object, refusal.Message)
				drawn++
			}
		}
		if more := int(of.Total) - drawn; more > 0 {
			fmt.Fprintf(b, "    and %d more\n", more)
		}
	}
	if left > 0 && len(r.Reasons) > 0 {
		fmt.Fprintf(b, "  other reasons of %d objects\n", left)
	}
	if len(r.Reasons) > 0 {
		return
	}
	for _, refusal := range r.First { // of an operator that does not count reasons
		fmt.Fprintf(b, "  %s: %s\n", refusal.Object, refusal.Message)
	}
	if more := left - len(r.First); more > 0 {
		fmt.Fprintf(b, "  and %d more\n", more)
	}
}

func drawNodes(b *strings.Builder, nodes []nodeReport) {
	if len(nodes) == 0 {
		return
	}
	b.WriteByte('\n')
	good := 0
	table(b, func(w *tabwriter.Writer) {
		fmt.Fprintln(w, "NODE\tREADY\tPODS\tFREE\t")
		for _, n := range nodes {
			if n.Ready && len(n.Problems) == 0 {
				if good++; good > goodNodes {
					continue
				}
			}
			free, message := "?", n.Message
			if n.Free != nil {
				free = fmt.Sprint(n.Free.Free)
			}
			if n.Ready && len(n.Problems) > 0 {
				message = n.Problems[0].Message
			}
			ready := map[bool]string{true: "yes", false: "no"}[n.Ready]
			fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", n.Name, ready, n.Pods, free, message)
		}
	})
	if good > goodNodes {
		fmt.Fprintf(b, "and %d more without a problem\n", good-goodNodes)
	}
}

// headline summarizes the conditions.
func headline(r statusReport) string {
	switch {
	case r.Healthy:
		return "healthy"
	case r.NetworkHealthy:
		return fmt.Sprintf("healthy, but requests of %d objects in namespaces wait", r.Refused.Total)
	}
	if len(r.Conditions) == 0 {
		return "not set up yet: no operator has reported"
	}
	var words []string
	if len(r.Problems) > 0 && r.Problems[0].State == networkv1alpha1.StateUnavailable ||
		!meta.IsStatusConditionTrue(r.Conditions, networkv1alpha1.ConditionAvailable) {
		words = append(words, "not available: existing pods keep their connectivity, but no change takes effect")
	}
	has := func(state networkv1alpha1.AreaState) bool { // the command itself has found some
		return slices.ContainsFunc(r.Problems, func(p networkv1alpha1.Problem) bool { return p.State == state })
	}
	if meta.IsStatusConditionTrue(r.Conditions, networkv1alpha1.ConditionDegraded) || has(networkv1alpha1.StateDegraded) {
		words = append(words, "degraded")
	}
	if meta.IsStatusConditionTrue(r.Conditions, networkv1alpha1.ConditionProgressing) || has(networkv1alpha1.StateProgressing) {
		words = append(words, "progressing")
	}
	if len(words) == 0 {
		return "not ready"
	}
	return strings.Join(words, ", ")
}

// table aligns the columns that draw writes.
func table(b *strings.Builder, draw func(*tabwriter.Writer)) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	draw(w)
	_ = w.Flush() // a strings.Builder returns no errors
}
