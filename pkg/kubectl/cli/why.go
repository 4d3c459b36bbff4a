package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/trace"
)

const whyLong = `Show why a pod does not start or has no network: which stage waits, since when, for which component,
and what to do.

It reads the pod, its events, its node, and how far its port has come in the OVN databases. The last
requires permission for "kubectl exec" in the databases' pod; without it, the rest is answered.

Exit codes: 0 the network does not wait for anything, 1 it waits, 2 an error.`

func newWhy(target *cluster) *cobra.Command {
	var output format
	c := &cobra.Command{
		Use:   "why POD",
		Short: "Show why a pod does not start or has no network",
		Long:  whyLong,
		Example: `  kubectl weft why demo/web-0
  kubectl weft why web-0 -o json`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("want one argument, NAMESPACE/POD, not %d: %s", len(args), c.UseLine())
			}
			return nil
		},
		RunE:              func(c *cobra.Command, args []string) error { return runWhy(c, target, output, args[0]) },
		ValidArgsFunction: target.completing(1, completion.pods),
	}
	output.bind(c)
	return c
}

func runWhy(c *cobra.Command, target *cluster, output format, pod string) error {
	if err := output.check(); err != nil {
		return err
	}
	f, err := readWhy(c.Context(), target, strings.TrimPrefix(pod, "pod/"))
	if err != nil {
		return err
	}
	a := f.explain(time.Now())
	if err := output.write(c.OutOrStdout(), a, a.text); err != nil {
		return err
	}
	if a.Waits {
		return errDifferent
	}
	return nil
}

// whyFacts are what an explanation is made from.
type whyFacts struct {
	pod    *corev1.Pod
	events []corev1.Event // warnings about the pod, the newest last
	// network is the NodeNetwork of the pod's node, or nil.
	network *networkv1alpha1.NodeNetwork
	// port is how far the pod's port has come. It is nil if the databases could not be read, and unread is the reason.
	port   *trace.PortState
	unread string
	// stale says whether ovn-northd has stopped to compute flows.
	stale []string
	// leads is nil if an operator leads, or says why none does.
	leads error
	// policies are the notes about unreadable NetworkPolicies that select the pod.
	policies []string
}

// unreadablePolicies returns a note for each NetworkPolicy with an unreadable part that selects a pod. A user who may not list policies
// gets none.
func unreadablePolicies(ctx context.Context, api client.Client, namespace string, pod labels.Set) (notes []string, err error) {
	var policies networkingv1.NetworkPolicyList
	if err := api.List(ctx, &policies, client.InNamespace(namespace)); apierrors.IsForbidden(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	for i := range policies.Items {
		read, invalid := facts.ParseNetworkPolicy(&policies.Items[i], func(facts.PodSelector, facts.NamedPort) []uint16 { return nil })
		if invalid != nil && read.Subject.Pods.Matches(pod) {
			notes = append(notes, fmt.Sprintf("NetworkPolicy %s/%s: %s; what cannot be read allows nothing, the rest of the policy holds, "+
				"and the policy isolates the pod", namespace, policies.Items[i].Name, strings.ReplaceAll(invalid.Error(), "\n", "; ")))
		}
	}
	return notes, nil
}

func readWhy(ctx context.Context, target *cluster, name string) (*whyFacts, error) {
	api, err := target.watchClient()
	if err != nil {
		return nil, err
	}
	namespace, err := target.contextNamespace()
	if err != nil {
		return nil, err
	}
	key := (&ends{namespace: namespace}).key(strings.Split(name, "/"))
	if strings.Contains(key.Name, "/") || key.Name == "" || key.Namespace == "" {
		return nil, fmt.Errorf("%q: want NAMESPACE/POD", name)
	}
	f := &whyFacts{pod: &corev1.Pod{}}
	if err := api.Get(ctx, key, f.pod); apierrors.IsNotFound(err) {
		return nil, noPod(key)
	} else if err != nil {
		return nil, err
	}
	var list corev1.EventList
	if err := api.List(ctx, &list, client.InNamespace(key.Namespace), client.MatchingFields{"involvedObject.name": key.Name}); err != nil {
		return nil, err
	}
	f.events = warningsOf(f.pod, list.Items)
	if !f.pod.Spec.HostNetwork {
		if f.policies, err = unreadablePolicies(ctx, api, key.Namespace, f.pod.Labels); err != nil {
			return nil, err
		}
	}
	var network networkv1alpha1.NodeNetwork
	if err := api.Get(ctx, client.ObjectKey{Name: f.pod.Spec.NodeName}, &network); err == nil {
		f.network = &network
	} else if f.pod.Spec.NodeName != "" && !apierrors.IsNotFound(err) {
		return nil, err
	}
	if f.network != nil {
		target = target.in(f.network.Spec.Zone)
	}
	return f, f.readProgress(ctx, target)
}

// readProgress reads the operator's lease and how far the pod's port has come. A lack of permission is no error.
func (f *whyFacts) readProgress(ctx context.Context, target *cluster) error {
	if _, err := target.findOperator(ctx); errors.Is(err, errNoLeader) {
		f.leads = err
	}
	if f.pod.Spec.HostNetwork {
		return nil
	}
	port := names.PodPort(names.DefaultNetwork, f.pod.Namespace, f.pod.Name)
	tracer, err := target.findTracer(ctx)
	if err != nil {
		f.unread = err.Error()
		return ctx.Err()
	}
	answer, err := tracer.Run(ctx, trace.Request{Ports: []string{port}})
	if err != nil {
		f.unread = err.Error()
		return ctx.Err()
	}
	if state, ok := answer.Ports[port]; ok {
		f.port = &state
	}
	f.stale, err = tracer.northdNotes(ctx)
	return err
}
