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
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
)

type ipReleaseCommand struct {
	cluster   *cluster
	format    format
	workload  string
	namespace string
	yes       bool
}

func newIPRelease(target *cluster) *cobra.Command {
	r := &ipReleaseCommand{cluster: target}
	c := &cobra.Command{Use: "release ADDRESS... | --workload [KIND/]NAME", Short: "Take addresses away from their holders",
		Long: `Take addresses of IPPools away from their holders, so that other pods can have them. The command shows
the addresses and asks for confirmation. It works for addresses that a workload keeps without a pod, and
for addresses whose pod does not exist any more. An address of an existing pod is refused: delete the pod or
its workload first.

The history of a released address stays. A reservation stays, too.

Exit codes: 0 all addresses are free; 1 some are, and others were refused; 2 an error, or all were
refused.`,
		Example: `  kubectl weft ip release 192.0.2.10 2001:db8::10
  kubectl weft ip release --workload StatefulSet/db -n demo --yes`,
		RunE: r.run}
	r.format.bind(c)
	flags := c.Flags()
	flags.StringVar(&r.workload, "workload", "", "release all addresses of this workload: [KIND/]NAME")
	flags.StringVarP(&r.namespace, "namespace", "n", "", "namespace of --workload (default: that of the kubeconfig's context)")
	flags.BoolVarP(&r.yes, "yes", "y", false, "do not ask for confirmation")
	return c
}

// releaseAnswer is the answer of "kubectl weft ip release".
type releaseAnswer struct {
	Released []addressReport  `json:"released"`
	Refused  []refusedAddress `json:"refused"`
}

// refusedAddress is an address that was not released.
type refusedAddress struct {
	Address string `json:"address"`
	Reason  string `json:"reason"`
}

// MarshalJSON encodes empty lists as [] instead of null.
func (a releaseAnswer) MarshalJSON() ([]byte, error) {
	type plain releaseAnswer
	a.Released, a.Refused = listOf(a.Released), listOf(a.Refused)
	return json.Marshal(plain(a))
}

func (r *ipReleaseCommand) check(args []string) error {
	switch {
	case (len(args) == 0) == (r.workload == ""):
		return errors.New("want either addresses or --workload: kubectl weft ip release ADDRESS... | --workload [KIND/]NAME")
	case r.namespace != "" && r.workload == "":
		return errors.New("--namespace is the namespace of --workload")
	case r.format == formatJSON && !r.yes:
		return errors.New("-o json asks no questions: add --yes")
	}
	return r.format.check()
}

func (r *ipReleaseCommand) run(c *cobra.Command, args []string) error {
	if err := r.check(args); err != nil {
		return err
	}
	api, err := r.cluster.watchClient()
	if err != nil {
		return err
	}
	chosen, err := r.choose(c.Context(), api, args)
	if err != nil {
		return err
	}
	var answer releaseAnswer
	chosen, answer.Refused, err = releasable(c.Context(), api, chosen)
	if err != nil {
		return err
	}
	if r.format == formatText {
		for _, refused := range answer.Refused {
			fmt.Fprintf(c.ErrOrStderr(), "%s is not released: %s\n", refused.Address, refused.Reason)
		}
	}
	if len(chosen) == 0 && len(answer.Refused) > 0 {
		return fmt.Errorf("nothing was released: %s: %s", answer.Refused[0].Address, answer.Refused[0].Reason)
	}
	if len(chosen) > 0 && !r.yes {
		if err := confirm(c.InOrStdin(), c.OutOrStdout(), chosen); err != nil {
			return err
		}
	}
	err = release(c.Context(), api, chosen, &answer)
	return errors.Join(err, r.format.write(c.OutOrStdout(), answer, func() string { return releaseText(answer) }),
		different(len(answer.Refused)))
}

// choose returns the FloatingIPs of the arguments.
func (r *ipReleaseCommand) choose(ctx context.Context, api client.Reader, args []string) (
	chosen []*networkv1alpha1.FloatingIP, err error,
) {
	for _, text := range args {
		f, err := addressNamed(ctx, api, text)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(chosen, func(o *networkv1alpha1.FloatingIP) bool { return o.Name == f.Name }) {
			chosen = append(chosen, f)
		}
	}
	if r.workload == "" {
		return chosen, nil
	}
	if r.namespace == "" {
		if r.namespace, err = r.cluster.contextNamespace(); err != nil {
			return nil, err
		}
	}
	var all networkv1alpha1.FloatingIPList
	if err := api.List(ctx, &all); err != nil {
		return nil, err
	}
	filter := addressFilter{namespace: r.namespace, workload: r.workload}
	for i := range all.Items {
		if filter.selects(addressReportOf(&all.Items[i])) {
			chosen = append(chosen, &all.Items[i])
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no address is held by %s in namespace %s; to see all: kubectl weft ip list", r.workload, r.namespace)
	}
	return chosen, nil
}

// releasable splits FloatingIPs by whether an existing pod has the address. It omits free addresses.
func releasable(ctx context.Context, api client.Reader, chosen []*networkv1alpha1.FloatingIP) (
	ok []*networkv1alpha1.FloatingIP, refused []refusedAddress, err error,
) {
	for _, f := range chosen {
		if f.Spec.Holder == nil {
			continue
		}
		user, err := userOf(ctx, api, f.Spec.Holder)
		if err != nil {
			return nil, nil, err
		}
		if user == "" {
			ok = append(ok, f)
			continue
		}
		refused = append(refused, refusedAddress{string(f.Spec.Address), user + " has it; delete the pod or its workload first"})
	}
	return ok, refused, nil
}

// userOf names the existing pod of a holder. It returns "" without such a pod.
func userOf(ctx context.Context, api client.Reader, h *networkv1alpha1.FloatingIPHolder) (string, error) {
	if h.PodUID == "" {
		return "", nil
	}
	var pod corev1.Pod
	if err := api.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: h.Pod}, &pod); err != nil {
		return "", client.IgnoreNotFound(err)
	}
	if pod.UID != h.PodUID || podEnded(&pod) {
		return "", nil
	}
	return fmt.Sprintf("pod %s/%s on node %s (%s)", pod.Namespace, pod.Name, dash(pod.Spec.NodeName), pod.Status.Phase), nil
}

func podEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// confirm shows the addresses and reads the answer "y" or "yes".
func confirm(in io.Reader, out io.Writer, chosen []*networkv1alpha1.FloatingIP) error {
	addresses := make([]addressReport, 0, len(chosen))
	for _, f := range chosen {
		addresses = append(addresses, addressReportOf(f))
	}
	fmt.Fprintf(out, "%s\nRelease %s? [y/N] ", addressesText(addresses, time.Now()), counted(len(chosen)))
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if text := strings.ToLower(strings.TrimSpace(line)); text != "y" && text != "yes" {
		return errors.New("not confirmed, so nothing was released (--yes confirms)")
	}
	return nil
}

func counted(addresses int) string {
	if addresses == 1 {
		return "1 address"
	}
	return fmt.Sprintf("%d addresses", addresses)
}

// release writes FloatingIPs without their holders. Each write contains the resourceVersion, so that it fails if a pod
// got the address meanwhile.
func release(ctx context.Context, api client.Writer, chosen []*networkv1alpha1.FloatingIP, answer *releaseAnswer) error {
	for _, f := range chosen {
		after := floating.Ended(f, floating.Outcome{Released: true}, metav1.Now())
		err := api.Update(ctx, after)
		switch {
		case apierrors.IsConflict(err):
			const reason = "its FloatingIP changed meanwhile; run the command again"
			answer.Refused = append(answer.Refused, refusedAddress{string(f.Spec.Address), reason})
		case client.IgnoreNotFound(err) != nil:
			return fmt.Errorf("cannot release %s: %w", f.Spec.Address, err)
		default:
			answer.Released = append(answer.Released, addressReportOf(f))
		}
	}
	return nil
}

func releaseText(answer releaseAnswer) string {
	var b strings.Builder
	for _, r := range answer.Released {
		fmt.Fprintf(&b, "%s of IPPool %s released from %s\n", r.Address, r.Pool, r.holder())
	}
	if len(answer.Released)+len(answer.Refused) == 0 {
		b.WriteString("Nobody has the address. Nothing was changed.\n")
	}
	return b.String()
}
