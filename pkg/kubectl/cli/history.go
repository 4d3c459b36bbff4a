package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/history"
	"github.com/weft-network/weft/pkg/process/admin"
	"github.com/weft-network/weft/pkg/unit"
)

const historyLong = `Show the latest changes of an object's rows in the OVN northbound database: when, which object and reconciler
caused them, and which columns changed from what to what. Changes of other programs and of people are shown
too: OVSDB does not say whose they are. Without an object, all changes are shown.

An object is KIND/NAMESPACE/NAME, or KIND/NAME: a pod, service, node, networkpolicy, egressip and so on. A name
without a namespace is in the context's namespace.

The leading operator keeps a bounded record in memory. It begins when the operator begins to lead, and the
oldest changes go first. The log of the database has the causes of all transactions since its last
compaction ("ovsdb-tool show-log").`

func newHistory(target *cluster) *cobra.Command {
	var output format
	limit := admin.DefaultLimit
	c := &cobra.Command{
		Use:   "history [OBJECT]",
		Short: "Show who changed an object's rows, when and how",
		Long:  historyLong,
		Example: `  kubectl weft history pod/demo/web-0
  kubectl weft history networkpolicy/demo/deny-all --limit 5
  kubectl weft history node/n1 -o json
  kubectl weft history`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("want at most one argument, KIND/NAMESPACE/NAME or KIND/NAME, not %d: %s", len(args), c.UseLine())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := output.check(); err != nil {
				return err
			}
			if limit < 1 || limit > admin.MaxLimit {
				return fmt.Errorf("--limit %d: want 1 to %d", limit, admin.MaxLimit)
			}
			return runHistory(c, target, output, limit, strings.Join(args, ""))
		},
		ValidArgsFunction: target.completing(1, completion.objects),
	}
	c.Flags().IntVar(&limit, "limit", limit, "show at most this many transactions")
	output.bind(c)
	return c
}

func runHistory(c *cobra.Command, target *cluster, output format, limit int, text string) error {
	namespace, err := target.contextNamespace()
	if err != nil {
		return err
	}
	object, err := objectKey(text, namespace)
	if err != nil {
		return err
	}
	o, err := target.findOperator(c.Context())
	if err != nil {
		return err
	}
	var answer admin.History
	if err := o.query(c.Context(), nil, &answer, "history", "--limit="+strconv.Itoa(limit), "--", string(object)); err != nil {
		return err
	}
	return output.write(c.OutOrStdout(), answer, func() string { return recordText(answer, object) })
}

// kindsInNamespaces are the kinds with rows whose objects are in namespaces, with the other words for them.
var kindsInNamespaces = map[string][]string{
	"pod": {"po", "pods"}, "service": {"svc", "services"}, "networkpolicy": {"netpol", "networkpolicies"},
	"multinetworkpolicy": {"multinetworkpolicies"}, "egressfirewall": {"egressfirewalls"}, "egressqos": {"egressqoses"},
}

// kindsOfCluster are the other kinds of objects with rows.
var kindsOfCluster = map[string][]string{
	"node": {"no", "nodes"}, "egressip": {"egressips"}, "network": {"networks"}, "clusternetwork": {"clusternetworks"},
	"ippool": {"ippools"}, "clusternetworkpolicy": {"cnp", "clusternetworkpolicies"},
	"adminnetworkpolicy": {"anp", "adminnetworkpolicies"}, "baselineadminnetworkpolicy": {"banp", "baselineadminnetworkpolicies"},
}

// objectKey returns the key of the object that an argument names. The operator checks kinds that are not listed here,
// such as podgroup. Without a kind, the argument is a pod.
func objectKey(text, namespace string) (unit.Key, error) {
	if text == "" {
		return "", nil
	}
	parts := strings.Split(text, "/")
	if slices.Contains(parts, "") {
		return "", fmt.Errorf("%q: want KIND/NAMESPACE/NAME or KIND/NAME", text)
	}
	word := strings.ToLower(parts[0])
	if kind, ok := kindOf(kindsInNamespaces, word); ok && len(parts) > 1 {
		if len(parts) == 2 { // a kind and a name
			parts = []string{kind, namespace, parts[1]}
		}
		return unit.NewKey(kind, parts[1:]...), nil
	}
	if kind, ok := kindOf(kindsOfCluster, word); ok && len(parts) == 2 {
		return unit.NewKey(kind, parts[1]), nil
	}
	if len(parts) == 1 {
		return unit.NewKey("pod", namespace, parts[0]), nil
	}
	return unit.NewKey(word, parts[1:]...), nil
}

func kindOf(kinds map[string][]string, word string) (string, bool) {
	for kind, others := range kinds {
		if kind == word || slices.Contains(others, word) {
			return kind, true
		}
	}
	return "", false
}

// stamp is the format of times in a history.
const stamp = "2006-01-02 15:04:05.000"

// recordText renders a history, the oldest change first.
func recordText(h admin.History, object unit.Key) string {
	var out strings.Builder
	what := "Changes"
	if object != "" {
		what = "Changes of " + string(object)
	}
	switch {
	case h.Since.IsZero():
		return "Nothing is recorded yet: the operator has not been connected to the database since it began to lead.\n"
	case len(h.Entries) == 0:
		fmt.Fprintf(&out, "%s: none", what)
	default:
		fmt.Fprintf(&out, "%s, in UTC, the latest last", what)
	}
	fmt.Fprintf(&out, ". Recorded since %s by %s.\n", h.Since.UTC().Format(stamp), h.Writer)
	for _, e := range h.Entries {
		fmt.Fprintf(&out, "\n%s  %s\n", e.Time.UTC().Format(stamp), whoText(e))
		for line := range strings.Lines(changesText(changesOf(e))) {
			if line != "\n" {
				line = "  " + line
			}
			out.WriteString(line)
		}
		if e.Omitted > 0 {
			fmt.Fprintf(&out, "  %s of this transaction not recorded\n", several(e.Omitted, "further change"))
		}
	}
	return out.String()
}

// whoText says who made the changes of an entry, and why.
func whoText(e history.Entry) string {
	switch e.State {
	case string(ovndb.DriftRepaired):
		return "another program; Weft reverts it"
	case string(ovndb.DriftStanding):
		return "another program; it is left, see ClusterNetwork's status.drift"
	case string(ovndb.DriftCollision):
		return "another program; a row with a name of Weft's"
	case history.StateSeen:
		return "another program; a row of its own"
	}
	var causes []string
	for _, c := range e.Causes {
		text := string(c.Unit)
		if c.Object != "" {
			text = string(c.Object)
		}
		if c.Reconciler != "" {
			text += " (reconciler " + c.Reconciler + ")"
		}
		if c.Repair {
			text += ", a repair"
		}
		if !slices.Contains(causes, text) {
			causes = append(causes, text)
		}
	}
	const named = 3
	if more := len(causes) - named; more > 0 {
		causes = append(causes[:named], fmt.Sprintf("and %d more", more))
	}
	who := "Weft"
	if len(causes) > 0 {
		who += ": " + strings.Join(causes, ", ")
	}
	if e.State == history.StateUnknown {
		who += "; the database's reply was lost"
	}
	return who
}

// changesOf returns the changes of an entry in the form of a plan: before is what the database has, after what is wanted.
func changesOf(e history.Entry) []ovndb.Change {
	changes := make([]ovndb.Change, 0, len(e.Changes))
	for _, c := range e.Changes {
		change := ovndb.Change{Owner: c.Owner, Op: ovndb.Op(c.Op), Table: c.Table, UUID: c.UUID, Name: c.Name}
		if c.Owner == "" {
			change.Owner = "(no unit of Weft)"
		}
		for _, column := range c.Columns {
			change.Columns = append(change.Columns, ovndb.ColumnChange{Column: column.Column, Want: column.After, Have: column.Before})
		}
		changes = append(changes, change)
	}
	return changes
}
