package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
	"github.com/weft-network/weft/pkg/process/admin"
)

type ipLeaksCommand struct {
	cluster *cluster
	format  format
}

func newIPLeaks(target *cluster) *cobra.Command {
	l := &ipLeaksCommand{cluster: target}
	c := &cobra.Command{Use: "leaks", Args: noArguments, Short: "Find addresses without a pod, workload, pool or FloatingIP",
		Long: `Find addresses of IPPools that are held for nothing: FloatingIPs whose pod, workload or IPPool does not
exist any more, and rows of the OVN northbound database that do not match the FloatingIPs. With the
release policy Never, an address without a workload is kept on purpose; it is listed, too.

The operator releases the addresses of ended pods itself. So run the command again before you act: an
address that is listed for a moment is not a leak. The rows come from the leading operator, as those of
kubectl weft check -n NAMESPACE (the operator's).

Exit codes: 0 no leak; 1 a leak, or a part could not be read; 2 an error.`,
		Example: `  kubectl weft ip leaks
  kubectl weft ip leaks -o json`,
		RunE: func(c *cobra.Command, _ []string) error { return l.run(c) }}
	l.format.bind(c)
	return c
}

// leaksAnswer is the answer of "kubectl weft ip leaks".
type leaksAnswer struct {
	Leaks []leak `json:"leaks"`
	// Rows are the violations of the invariants of floating addresses in the northbound database.
	Rows []string `json:"rows"`
	// Unread lists what could not be read.
	Unread []string `json:"unread"`
}

// leak is an address that is held for nothing.
type leak struct {
	addressReport
	Reason string `json:"reason"`
}

// MarshalJSON encodes empty lists as [] instead of null.
func (a leaksAnswer) MarshalJSON() ([]byte, error) {
	type plain leaksAnswer
	a.Leaks, a.Rows, a.Unread = listOf(a.Leaks), listOf(a.Rows), listOf(a.Unread)
	return json.Marshal(plain(a))
}

func (l *ipLeaksCommand) run(c *cobra.Command) error {
	if err := l.format.check(); err != nil {
		return err
	}
	api, err := l.cluster.watchClient()
	if err != nil {
		return err
	}
	answer, err := readLeaks(c.Context(), api)
	if err != nil {
		return err
	}
	if answer.Rows, err = l.rows(c.Context()); err != nil {
		answer.Unread = append(answer.Unread, "rows of the northbound database: "+explain(c.Context(), err).Error())
	}
	if err := l.format.write(c.OutOrStdout(), answer, func() string { return leaksText(answer) }); err != nil {
		return err
	}
	return different(len(answer.Leaks) + len(answer.Rows) + len(answer.Unread))
}

// rowInvariants are the invariants of floating addresses that the operator checks.
var rowInvariants = []string{"FloatingHeldByOne", "FloatingWhereHeld"}

// rows returns where the northbound database differs from the FloatingIPs.
func (l *ipLeaksCommand) rows(ctx context.Context) (found []string, err error) {
	operator, err := l.cluster.findOperator(ctx)
	if err != nil {
		return nil, err
	}
	var checked admin.Violations
	if err := operator.query(ctx, nil, &checked, "check"); err != nil {
		return nil, err
	}
	return rowsOf(checked), nil
}

// rowsOf returns the violations of the invariants of floating addresses.
func rowsOf(checked admin.Violations) (found []string) {
	for _, v := range checked.Violations {
		if slices.Contains(rowInvariants, v.Invariant) {
			found = append(found, v.String())
		}
	}
	return found
}

// holding is what exists of the objects that FloatingIPs name.
type holding struct {
	pools map[string]floating.Pool
	pods  map[types.NamespacedName]*corev1.Pod
	// workloads has the UID of each workload that exists.
	workloads map[floating.Workload]types.UID
	// unknown are workloads that could not be read.
	unknown map[floating.Workload]bool
}

// readLeaks reads the FloatingIPs, and then the objects that they name.
func readLeaks(ctx context.Context, api client.Reader) (answer leaksAnswer, err error) {
	var all networkv1alpha1.FloatingIPList
	if err := api.List(ctx, &all); err != nil {
		return answer, err
	}
	have := holding{pools: map[string]floating.Pool{}, pods: map[types.NamespacedName]*corev1.Pod{},
		workloads: map[floating.Workload]types.UID{}, unknown: map[floating.Workload]bool{}}
	var pools networkv1alpha1.IPPoolList
	if err := api.List(ctx, &pools); err != nil {
		return answer, err
	}
	for i := range pools.Items {
		have.pools[pools.Items[i].Name], _ = floating.ParsePool(&pools.Items[i]) // the pool's status has the error
	}
	if err := have.readPods(ctx, api, all.Items); err != nil {
		return answer, err
	}
	for i := range all.Items {
		unread, err := have.readWorkload(ctx, api, all.Items[i].Spec.Holder)
		if err != nil {
			return answer, err
		}
		if unread != "" {
			answer.Unread = append(answer.Unread, unread)
		}
	}
	for i := range all.Items {
		if reason := have.leak(&all.Items[i]); reason != "" {
			answer.Leaks = append(answer.Leaks, leak{addressReportOf(&all.Items[i]), reason})
		}
	}
	slices.SortFunc(answer.Leaks, func(a, b leak) int { return byAddress(a.addressReport, b.addressReport) })
	return answer, nil
}

// readPods reads the pods of the namespaces with holders.
func (h holding) readPods(ctx context.Context, api client.Reader, all []networkv1alpha1.FloatingIP) error {
	read := map[string]bool{}
	for i := range all {
		holder := all[i].Spec.Holder
		if holder == nil || read[holder.Namespace] {
			continue
		}
		read[holder.Namespace] = true
		var pods corev1.PodList
		if err := api.List(ctx, &pods, client.InNamespace(holder.Namespace)); err != nil {
			return err
		}
		for j := range pods.Items {
			h.pods[client.ObjectKeyFromObject(&pods.Items[j])] = &pods.Items[j]
		}
	}
	return nil
}

// readWorkload reads the workload of a holder once. unread says that the user may not read it.
func (h holding) readWorkload(ctx context.Context, api client.Reader, holder *networkv1alpha1.FloatingIPHolder) (
	unread string, err error,
) {
	if holder == nil {
		return "", nil
	}
	w := floating.WorkloadOf(holder)
	if _, known := h.workloads[w]; known || h.unknown[w] {
		return "", nil
	}
	object := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: w.APIVersion, Kind: w.Kind}}
	err = api.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: w.Name}, object)
	switch {
	case apierrors.IsForbidden(err):
		h.unknown[w] = true
		return fmt.Sprintf("%s: %v", w, err), nil
	case absent(err):
		h.workloads[w] = ""
	case err != nil:
		return "", fmt.Errorf("%s: %w", w, err)
	default:
		h.workloads[w] = object.UID
	}
	return "", nil
}

// leak returns why an address is held for nothing; "" if it is not.
func (h holding) leak(f *networkv1alpha1.FloatingIP) string {
	pool, ok := h.pools[f.Spec.Pool]
	if !ok {
		return fmt.Sprintf("IPPool %s does not exist", f.Spec.Pool)
	}
	holder := f.Spec.Holder
	if holder == nil {
		return ""
	}
	if address, err := netip.ParseAddr(string(f.Spec.Address)); err == nil {
		if _, inside := pool.SegmentOf(address); !inside && len(pool.Segments) > 0 {
			return fmt.Sprintf("it is in none of the ranges of IPPool %s", f.Spec.Pool)
		}
	}
	if holder.PodUID != "" {
		return h.podLeak(holder)
	}
	w := floating.WorkloadOf(holder)
	uid, known := h.workloads[w]
	switch {
	case !known:
		return ""
	case uid == "" && holder.ReleasePolicy == networkv1alpha1.ReleaseNever:
		return fmt.Sprintf("%s does not exist, and release policy Never keeps the address until somebody releases it", w)
	case uid == "":
		return fmt.Sprintf("%s does not exist", w)
	case holder.ReleasePolicy == networkv1alpha1.ReleaseImmutable && uid != holder.UID:
		return fmt.Sprintf("%s was recreated (UID %s instead of %s)", w, uid, holder.UID)
	}
	return ""
}

// podLeak returns why the pod of a holder does not use the address.
func (h holding) podLeak(holder *networkv1alpha1.FloatingIPHolder) string {
	name := types.NamespacedName{Namespace: holder.Namespace, Name: holder.Pod}
	switch pod := h.pods[name]; {
	case pod == nil:
		return fmt.Sprintf("pod %s (UID %s) does not exist", name, holder.PodUID)
	case pod.UID != holder.PodUID:
		return fmt.Sprintf("pod %s was recreated (UID %s instead of %s)", name, pod.UID, holder.PodUID)
	case podEnded(pod):
		return fmt.Sprintf("pod %s has ended (%s)", name, pod.Status.Phase)
	}
	return ""
}

// leaksText renders the leaks as a table.
func leaksText(answer leaksAnswer) string {
	var b strings.Builder
	if len(answer.Leaks) > 0 {
		table(&b, func(w *tabwriter.Writer) {
			fmt.Fprintln(w, "ADDRESS\tPOOL\tSTATE\tREASON")
			for _, l := range answer.Leaks {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", l.Address, l.Pool, l.state(), l.Reason)
			}
		})
	}
	for _, row := range answer.Rows {
		fmt.Fprintln(&b, row)
	}
	for _, unread := range answer.Unread {
		fmt.Fprintln(&b, "not read:", unread)
	}
	if b.Len() == 0 {
		return "No leaks.\n"
	}
	return b.String()
}
