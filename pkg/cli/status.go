package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spf13/cobra"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/health"
)

// silentAfter is how long a lease is not renewed until nobody is taken to lead: much longer than the lease, since clocks differ.
const silentAfter = time.Minute

// statusReport is what "kubectl weft status" answers.
type statusReport struct {
	// Healthy: the network is ready for the present spec, nothing is wrong and nothing on its way.
	Healthy    bool                                `json:"healthy"`
	Generation int64                               `json:"generation"`
	Observed   int64                               `json:"observedGeneration"`
	Conditions []metav1.Condition                  `json:"conditions"`
	Areas      []networkv1alpha1.AreaStatus        `json:"areas"`
	Problems   []networkv1alpha1.Problem           `json:"problems"`
	Nodes      []nodeReport                        `json:"nodes"`
	Versions   []networkv1alpha1.ComponentVersion  `json:"versions,omitempty"`
	Rollout    *networkv1alpha1.RolloutStatus      `json:"rollout,omitempty"`
	Computed   *networkv1alpha1.ClusterNetworkSpec `json:"computed,omitempty"`
}

// nodeReport is one node of it.
type nodeReport struct {
	Name     string                         `json:"name"`
	Ready    bool                           `json:"ready"`
	Message  string                         `json:"message"`
	Pods     int32                          `json:"pods"`
	Free     *networkv1alpha1.AddressCounts `json:"addresses,omitempty"`
	Problems []networkv1alpha1.Problem      `json:"problems,omitempty"`
}

type statusCommand struct {
	cluster *cluster
	format  format
	wait    bool
	timeout time.Duration
}

func newStatus(target *cluster) *cobra.Command {
	s := &statusCommand{cluster: target}
	c := &cobra.Command{Use: "status", Short: "Show how the network is, the worst first, and what to do", Args: cobra.NoArgs,
		Long: `Show how the network is: its areas, its problems with the worst first and what to do about each, and its nodes. It reads the
ClusterNetwork, the NodeNetworks and the operator's lease, and writes nothing.

Exit codes: 0 the network is ready for its present spec, nothing is wrong and nothing on its way; 1 it is not, with --wait at the end of
--timeout; 2 an error, such as a cluster without a ClusterNetwork.`,
		RunE: func(c *cobra.Command, _ []string) error { return s.run(c) }}
	s.format.bind(c)
	c.Flags().BoolVar(&s.wait, "wait", false, "wait until the network is healthy")
	c.Flags().DurationVar(&s.timeout, "timeout", 10*time.Minute, "how long --wait waits")
	return c
}

func (s *statusCommand) run(c *cobra.Command) error {
	if err := s.format.check(); err != nil {
		return err
	}
	api, err := s.cluster.watchClient()
	if err != nil {
		return err
	}
	if s.wait {
		if err := s.await(c.Context(), api); err != nil {
			return err
		}
	}
	report, err := readStatus(c.Context(), api, s.cluster.namespace, time.Now())
	if err != nil {
		return err
	}
	if err := s.format.write(c.OutOrStdout(), report, func() string { return statusText(report) }); err != nil {
		return err
	}
	if !report.Healthy {
		return errDifferent
	}
	return nil
}

// watchClient returns a client that knows Weft's kinds.
func (c *cluster) watchClient() (client.WithWatch, error) {
	config, err := c.restConfig()
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), networkv1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}

// await returns when the ClusterNetwork is healthy, or the time is over. It may be that the ClusterNetwork comes only now.
func (s *statusCommand) await(ctx context.Context, api client.WithWatch) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	for {
		done, err := awaitEvent(ctx, api)
		switch {
		case done, errors.Is(ctx.Err(), context.DeadlineExceeded):
			return nil // what is read next says what is missing
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		}
	}
}

// awaitEvent follows one watch, which begins with what is there; the API server ends it from time to time.
func awaitEvent(ctx context.Context, api client.WithWatch) (done bool, err error) {
	w, err := api.Watch(ctx, &networkv1alpha1.ClusterNetworkList{})
	if err != nil {
		return false, err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		if cn, ok := event.Object.(*networkv1alpha1.ClusterNetwork); ok && isHealthy(cn) {
			return true, nil
		}
	}
	return false, nil
}

// isHealthy judges the ClusterNetwork alone.
func isHealthy(cn *networkv1alpha1.ClusterNetwork) bool {
	s := cn.Status
	return s.ObservedGeneration == cn.Generation && len(s.Problems) == 0 && (s.Rollout == nil || s.Rollout.State == networkv1alpha1.RolloutComplete) &&
		meta.IsStatusConditionTrue(s.Conditions, networkv1alpha1.ConditionReady) && meta.IsStatusConditionTrue(s.Conditions, networkv1alpha1.ConditionAvailable)
}

// readStatus reads the report.
func readStatus(ctx context.Context, api client.Client, namespace string, now time.Time) (statusReport, error) {
	var cn networkv1alpha1.ClusterNetwork
	if err := api.Get(ctx, client.ObjectKey{Name: networkv1alpha1.ClusterNetworkName}, &cn); err != nil {
		return statusReport{}, err
	}
	var networks networkv1alpha1.NodeNetworkList
	if err := api.List(ctx, &networks); err != nil {
		return statusReport{}, err
	}
	var lease coordinationv1.Lease
	var pods corev1.PodList
	err := api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: leaseName}, &lease)
	if client.IgnoreNotFound(err) != nil {
		return statusReport{}, err
	}
	held := err == nil
	if err := api.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{networkv1alpha1.ComponentLabel: "operator"}); err != nil && !apierrors.IsForbidden(err) {
		return statusReport{}, err
	}
	return statusOf(&cn, networks.Items, leaderless(held, &lease, pods.Items, namespace, now)), nil
}

// leaderless says why what the status says may be old; empty: an operator leads.
func leaderless(held bool, lease *coordinationv1.Lease, pods []corev1.Pod, namespace string, now time.Time) string {
	if !held {
		return fmt.Sprintf("no operator ever led: the lease %s/%s is not there", namespace, leaseName)
	}
	if _, err := leader(lease, pods); err != nil && len(pods) > 0 {
		return err.Error()
	}
	if renewed := lease.Spec.RenewTime; renewed != nil && now.Sub(renewed.Time) > silentAfter {
		return fmt.Sprintf("no operator leads: the lease %s/%s was renewed %s ago", namespace, leaseName, now.Sub(renewed.Time).Round(time.Second))
	}
	return ""
}

// statusOf computes the report.
func statusOf(cn *networkv1alpha1.ClusterNetwork, networks []networkv1alpha1.NodeNetwork, leaderless string) statusReport {
	s := cn.Status
	r := statusReport{Generation: cn.Generation, Observed: s.ObservedGeneration, Conditions: s.Conditions, Areas: slices.Clone(s.Areas), Problems: slices.Clone(s.Problems),
		Versions: s.Versions, Rollout: s.Rollout, Computed: s.Computed, Healthy: isHealthy(cn) && leaderless == ""}
	if leaderless != "" {
		r.add(health.New(networkv1alpha1.AreaControlPlane, networkv1alpha1.StateUnavailable, health.ReasonNoLeader, "Deployment/weft-operator",
			leaderless+"; what else is said here is of before"))
	} else if s.ObservedGeneration != cn.Generation {
		r.add(health.New(networkv1alpha1.AreaControlPlane, networkv1alpha1.StateProgressing, health.ReasonNotObserved, "ClusterNetwork/"+cn.Name,
			fmt.Sprintf("the operator has not seen generation %d of the spec yet", cn.Generation)))
	}
	for i := range networks {
		nn := &networks[i]
		n := nodeReport{Name: nn.Name, Pods: nn.Status.Pods, Free: nn.Status.Addresses, Problems: nn.Status.Problems, Message: "its agent has not reported yet"}
		if ready := meta.FindStatusCondition(nn.Status.Conditions, networkv1alpha1.ConditionReady); ready != nil {
			n.Ready, n.Message = ready.Status == metav1.ConditionTrue, ready.Message
		}
		r.Nodes = append(r.Nodes, n)
	}
	slices.SortStableFunc(r.Nodes, func(a, b nodeReport) int {
		return cmp.Or(boolOf(a.Ready)-boolOf(b.Ready), len(b.Problems)-len(a.Problems), cmp.Compare(a.Name, b.Name))
	})
	return r
}

// add puts a problem where it belongs.
func (r *statusReport) add(p networkv1alpha1.Problem) {
	r.Problems = health.Sort(append([]networkv1alpha1.Problem{p}, r.Problems...))
	for i := range r.Areas {
		if r.Areas[i].Name == p.Area {
			r.Areas[i].State, r.Areas[i].Message = p.State, p.Message
		}
	}
}

func boolOf(b bool) int {
	if b {
		return 1
	}
	return 0
}
