package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
)

func newIP(target *cluster) *cobra.Command {
	cmd := &cobra.Command{Use: "ip", Short: "Show, release and import the addresses of IPPools",
		Example: `  kubectl weft ip list
  kubectl weft ip history 192.0.2.10`}
	cmd.AddCommand(newIPList(target), newIPRelease(target), newIPHistory(target), newIPLeaks(target), newIPImport(target))
	return cmd
}

// States of an address in an answer.
const (
	addressUsed = "used" // a pod has it
	addressKept = "kept" // a workload keeps it without a pod
	addressFree = "free"
)

// addressReport is one FloatingIP in an answer.
type addressReport struct {
	Address  string `json:"address"`
	Pool     string `json:"pool"`
	State    string `json:"state"`
	Reserved bool   `json:"reserved,omitempty"`
	// Kind, Namespace and Workload are the holder. Pod is its pod, or the pod name that the address is kept for.
	Kind          string           `json:"kind,omitempty"`
	Namespace     string           `json:"namespace,omitempty"`
	Workload      string           `json:"workload,omitempty"`
	Pod           string           `json:"pod,omitempty"`
	Node          string           `json:"node,omitempty"`
	ReleasePolicy string           `json:"releasePolicy,omitempty"`
	TTL           *metav1.Duration `json:"ttl,omitempty"`
	Since         *metav1.Time     `json:"since,omitempty"`
}

func addressReportOf(f *networkv1alpha1.FloatingIP) addressReport {
	r := addressReport{Address: string(f.Spec.Address), Pool: f.Spec.Pool, State: addressFree}
	_, r.Reserved = f.Labels[networkv1alpha1.ReservedLabel]
	if h := f.Spec.Holder; h != nil {
		r.Kind, r.Namespace, r.Workload, r.Pod, r.Node = h.Kind, h.Namespace, h.Name, h.Pod, h.Node
		r.ReleasePolicy, r.TTL, r.Since = string(h.ReleasePolicy), h.TTL, &h.Since
		if r.State = addressKept; h.PodUID != "" {
			r.State = addressUsed
		}
	}
	return r
}

// state returns the state for people, which includes the reservation.
func (r addressReport) state() string {
	if r.Reserved {
		return r.State + ", reserved"
	}
	return r.State
}

// holder returns the workload for people: "Deployment demo/web".
func (r addressReport) holder() string {
	if r.Kind == "" {
		return ""
	}
	return r.Kind + " " + r.Namespace + "/" + r.Workload
}

// addressFilter selects addresses. Empty fields select all.
type addressFilter struct{ pool, namespace, workload, pod, text string }

func (a addressFilter) selects(r addressReport) bool {
	kind, name, ofKind := strings.Cut(a.workload, "/")
	if !ofKind {
		kind, name = "", a.workload
	}
	for _, field := range [][2]string{{a.pool, r.Pool}, {a.namespace, r.Namespace}, {name, r.Workload}, {a.pod, r.Pod}} {
		if field[0] != "" && field[0] != field[1] {
			return false
		}
	}
	all := strings.Join([]string{r.Address, r.Pool, r.state(), r.holder(), r.Pod, r.Node, r.ReleasePolicy}, "\n")
	return (!ofKind || strings.EqualFold(kind, r.Kind)) && strings.Contains(strings.ToLower(all), strings.ToLower(a.text))
}

// addressOrders are the orders of a list. Addresses of the same value are in the order of addresses.
var addressOrders = map[string]func(a, b addressReport) int{
	"address": func(addressReport, addressReport) int { return 0 },
	"pool":    func(a, b addressReport) int { return cmp.Compare(a.Pool, b.Pool) },
	"node":    func(a, b addressReport) int { return cmp.Compare(a.Node, b.Node) },
	"workload": func(a, b addressReport) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Workload, b.Workload), cmp.Compare(a.Pod, b.Pod))
	},
	"since": func(a, b addressReport) int { return sinceOf(a).Compare(sinceOf(b)) },
}

func sinceOf(r addressReport) time.Time {
	if r.Since == nil {
		return time.Time{}
	}
	return r.Since.Time
}

// byAddress orders IPv4 before IPv6.
func byAddress(a, b addressReport) int {
	x, _ := netip.ParseAddr(a.Address)
	y, _ := netip.ParseAddr(b.Address)
	return cmp.Or(cmp.Compare(x.BitLen(), y.BitLen()), x.Compare(y))
}

// addressList is the answer of "kubectl weft ip list".
type addressList struct {
	Addresses []addressReport `json:"addresses"`
}

// MarshalJSON encodes an empty list as [] instead of null.
func (l addressList) MarshalJSON() ([]byte, error) {
	type plain addressList
	l.Addresses = listOf(l.Addresses)
	return json.Marshal(plain(l))
}

// listAddresses returns the selected FloatingIPs in an order.
func listAddresses(all []networkv1alpha1.FloatingIP, filter addressFilter, order string) (l addressList) {
	for i := range all {
		if r := addressReportOf(&all[i]); filter.selects(r) {
			l.Addresses = append(l.Addresses, r)
		}
	}
	slices.SortStableFunc(l.Addresses, func(a, b addressReport) int { return cmp.Or(addressOrders[order](a, b), byAddress(a, b)) })
	return l
}

type ipListCommand struct {
	cluster *cluster
	format  format
	filter  addressFilter
	order   string
}

func newIPList(target *cluster) *cobra.Command {
	l := &ipListCommand{cluster: target}
	c := &cobra.Command{Use: "list [TEXT]", Args: cobra.MaximumNArgs(1), Short: "List the addresses of IPPools and their holders",
		Long: `List the FloatingIPs: the addresses of IPPools that a pod has (used), that a workload keeps without a
pod (kept), and free addresses. An address of a pool that no pod ever had is listed only
if the pool's spec.size preallocates it.

TEXT selects addresses with the text in any column, without regard to case. All filters must match.

Exit codes: 0 success, also without an address; 2 an error.`,
		Example: `  kubectl weft ip list
  kubectl weft ip list --pool web -n demo --workload StatefulSet/db
  kubectl weft ip list kept --sort since
  kubectl weft ip list 192.0.2. -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			l.filter.text = strings.Join(args, "")
			return l.run(c)
		}}
	l.format.bind(c)
	flags := c.Flags()
	flags.StringVar(&l.filter.pool, "pool", "", "only addresses of this IPPool")
	flags.StringVarP(&l.filter.namespace, "namespace", "n", "", "only addresses of workloads in this namespace")
	flags.StringVar(&l.filter.workload, "workload", "", "only addresses of this workload: [KIND/]NAME")
	flags.StringVar(&l.filter.pod, "pod", "", "only addresses of pods of this name")
	flags.StringVar(&l.order, "sort", "address", "order: address, pool, workload, node or since")
	return c
}

func (l *ipListCommand) run(c *cobra.Command) error {
	if err := l.format.check(); err != nil {
		return err
	}
	if addressOrders[l.order] == nil {
		return fmt.Errorf("invalid --sort %q: want address, pool, workload, node or since", l.order)
	}
	api, err := l.cluster.watchClient()
	if err != nil {
		return err
	}
	var all networkv1alpha1.FloatingIPList
	if err := api.List(c.Context(), &all); err != nil {
		return err
	}
	answer := listAddresses(all.Items, l.filter, l.order)
	return l.format.write(c.OutOrStdout(), answer, func() string { return addressesText(answer.Addresses, time.Now()) })
}

// addressesText renders addresses as a table.
func addressesText(addresses []addressReport, now time.Time) string {
	if len(addresses) == 0 {
		return "No addresses.\n"
	}
	var b strings.Builder
	table(&b, func(w *tabwriter.Writer) {
		fmt.Fprintln(w, "ADDRESS\tPOOL\tSTATE\tHOLDER\tPOD\tNODE\tPOLICY\tSINCE")
		for _, r := range addresses {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Address, r.Pool, r.state(), dash(r.holder()), dash(r.Pod), dash(r.Node),
				dash(r.ReleasePolicy), age(r.Since, now))
		}
	})
	return b.String()
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// age renders how long ago a time is, in its largest units: "3d4h".
func age(since *metav1.Time, now time.Time) string {
	if since == nil {
		return "-"
	}
	ago := max(now.Sub(since.Time), 0)
	days := int(ago.Hours()) / 24
	switch hours, minutes := int(ago.Hours())%24, int(ago.Minutes())%60; {
	case days > 0:
		return fmt.Sprintf("%dd%dh", days, hours)
	case hours > 0:
		return fmt.Sprintf("%dh%dm", hours, minutes)
	case minutes > 0:
		return fmt.Sprintf("%dm", minutes)
	}
	return fmt.Sprintf("%ds", int(ago.Seconds()))
}

// addressHistory is the answer of "kubectl weft ip history".
type addressHistory struct {
	addressReport
	History []networkv1alpha1.FloatingIPUse `json:"history"`
}

// MarshalJSON encodes an empty list as [] instead of null.
func (h addressHistory) MarshalJSON() ([]byte, error) {
	type plain addressHistory
	h.History = listOf(h.History)
	return json.Marshal(plain(h))
}

type ipHistoryCommand struct {
	cluster *cluster
	format  format
}

func newIPHistory(target *cluster) *cobra.Command {
	h := &ipHistoryCommand{cluster: target}
	c := &cobra.Command{Use: "history ADDRESS", Args: cobra.ExactArgs(1), Short: "Show which pods had an address",
		Long: fmt.Sprintf(`Show which pod has an address of an IPPool and which pods had it before, the latest first. Weft remembers
the last %d pods.

Exit codes: 0 success, 2 an error, such as an address without a FloatingIP.`, networkv1alpha1.HistoryLength),
		Example: `  kubectl weft ip history 192.0.2.10
  kubectl weft ip history 2001:db8::10 -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := h.format.check(); err != nil {
				return err
			}
			api, err := h.cluster.watchClient()
			if err != nil {
				return err
			}
			f, err := addressNamed(c.Context(), api, args[0])
			if err != nil {
				return err
			}
			answer := addressHistory{addressReportOf(f), f.Status.History}
			return h.format.write(c.OutOrStdout(), answer, func() string { return historyText(answer) })
		}}
	h.format.bind(c)
	return c
}

// addressNamed returns the FloatingIP of an address.
func addressNamed(ctx context.Context, api client.Reader, text string) (*networkv1alpha1.FloatingIP, error) {
	address, err := netip.ParseAddr(text)
	if err != nil || address.Zone() != "" {
		return nil, fmt.Errorf("%q is not an IP address", text)
	}
	f := &networkv1alpha1.FloatingIP{}
	err = api.Get(ctx, client.ObjectKey{Name: networkv1alpha1.FloatingIPName(address.Unmap())}, f)
	if err != nil && client.IgnoreNotFound(err) == nil {
		return nil, fmt.Errorf("no FloatingIP has the address %s; to see all: kubectl weft ip list", address)
	}
	return f, err
}

// historyText renders the holder and the history as a table.
func historyText(h addressHistory) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of IPPool %s is %s\n", h.Address, h.Pool, h.state())
	if h.State == addressFree && len(h.History) == 0 {
		return b.String()
	}
	at := func(t metav1.Time) string { return t.UTC().Format(time.RFC3339) }
	b.WriteByte('\n')
	table(&b, func(w *tabwriter.Writer) {
		fmt.Fprintln(w, "FROM\tUNTIL\tHOLDER\tPOD\tNODE")
		switch h.State {
		case addressUsed:
			fmt.Fprintf(w, "%s\tnow\t%s\t%s\t%s\n", at(*h.Since), h.holder(), dash(h.Pod), dash(h.Node))
		case addressKept:
			fmt.Fprintf(w, "%s\tnow\t%s\t(kept)\t-\n", at(*h.Since), h.holder())
		}
		for _, use := range h.History {
			of := floating.Workload{Kind: use.Kind, Namespace: use.Namespace, Name: use.Name}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", at(use.From), at(use.Until), of, dash(use.Pod), dash(use.Node))
		}
	})
	return b.String()
}
