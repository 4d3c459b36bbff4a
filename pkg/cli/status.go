package cli

import (
	"cmp"
	"context"
	"encoding/json"
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

// silentAfter is the age of a lease's last renewal after which no operator is considered the leader. It is much
// longer than the lease, because clocks differ.
const silentAfter = time.Minute

// statusReport is the answer of "kubectl weft status".
type statusReport struct {
	// Healthy means that the network is ready for the present spec, without problems and without changes in progress.
	Healthy bool `json:"healthy"`
	// Removing is set while the ClusterNetwork is being deleted.
	Removing   *removalReport                      `json:"removing,omitempty"`
	Generation int64                               `json:"generation"`
	Observed   int64                               `json:"observedGeneration"`
	Conditions []metav1.Condition                  `json:"conditions"`
	Areas      []networkv1alpha1.AreaStatus        `json:"areas"`
	Problems   []networkv1alpha1.Problem           `json:"problems"`
	Nodes      []nodeReport                        `json:"nodes"`
	Versions   []networkv1alpha1.ComponentVersion  `json:"versions,omitempty"`
	Rollout    *networkv1alpha1.RolloutStatus      `json:"rollout,omitempty"`
	Refused    *networkv1alpha1.Refusals           `json:"refused,omitempty"`
	Computed   *networkv1alpha1.ClusterNetworkSpec `json:"computed,omitempty"`
}

// MarshalJSON encodes empty lists as [] instead of null.
func (r statusReport) MarshalJSON() ([]byte, error) {
	type plain statusReport
	r.Conditions, r.Areas, r.Problems, r.Nodes = listOf(r.Conditions), listOf(r.Areas), listOf(r.Problems), listOf(r.Nodes)
	return json.Marshal(plain(r))
}

// listOf returns the list, or an empty list instead of nil.
func listOf[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// nodeReport is the status of a node.
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
	c := &cobra.Command{Use: "status", Args: noArguments,
		Short: "Show the state of the network, its problems (worst first) and what to do",
		Long: `Show the state of the network: its areas, its problems (worst first) with what to do about each, and
its nodes. The command reads the ClusterNetwork, the NodeNetworks and the operator's lease, and
writes nothing.

Exit codes: 0 the network is ready for its present spec, without problems and without changes in
progress; 1 it is not (with --wait: not within --timeout); 2 an error, such as a cluster without a
ClusterNetwork.`,
		Example: `  kubectl weft status
  kubectl weft status --wait --timeout 5m
  kubectl weft status -o json | jq .problems`,
		RunE: func(c *cobra.Command, _ []string) error { return s.run(c) }}
	s.format.bind(c)
	c.Flags().BoolVar(&s.wait, "wait", false, "wait until the network is healthy")
	c.Flags().DurationVar(&s.timeout, "timeout", 10*time.Minute, "how long --wait waits")
	return c
}

func (s *statusCommand) run(c *cobra.Command) error {
	if err := errors.Join(s.format.check(), positive("timeout", s.timeout)); err != nil {
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

// watchClient returns a client for Weft's and Kubernetes' kinds.
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

// await returns when the ClusterNetwork is healthy or the time is over. The ClusterNetwork may be created meanwhile.
func (s *statusCommand) await(ctx context.Context, api client.WithWatch) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	for {
		done, err := awaitEvent(ctx, api)
		switch {
		case done, errors.Is(ctx.Err(), context.DeadlineExceeded):
			return nil // the report shows what is missing
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		}
	}
}

// awaitEvent follows one watch, which begins with the existing objects. The API server ends a watch from time to
// time.
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

// isHealthy judges by the ClusterNetwork alone.
func isHealthy(cn *networkv1alpha1.ClusterNetwork) bool {
	s := cn.Status
	return cn.DeletionTimestamp.IsZero() && s.ObservedGeneration == cn.Generation && len(s.Problems) == 0 &&
		(s.Rollout == nil || s.Rollout.State == networkv1alpha1.RolloutComplete) &&
		meta.IsStatusConditionTrue(s.Conditions, networkv1alpha1.ConditionReady) &&
		meta.IsStatusConditionTrue(s.Conditions, networkv1alpha1.ConditionAvailable)
}

// readStatus reads the objects and computes the report.
func readStatus(ctx context.Context, api client.Client, namespace string, now time.Time) (statusReport, error) {
	var cn networkv1alpha1.ClusterNetwork
	if err := api.Get(ctx, client.ObjectKey{Name: networkv1alpha1.ClusterNetworkName}, &cn); apierrors.IsNotFound(err) {
		return statusReport{}, noNetwork(ctx, api, namespace)
	} else if err != nil {
		return statusReport{}, err
	}
	var networks networkv1alpha1.NodeNetworkList
	if err := api.List(ctx, &networks); err != nil {
		return statusReport{}, err
	}
	var lease coordinationv1.Lease
	err := api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: leaseName}, &lease)
	if client.IgnoreNotFound(err) != nil {
		return statusReport{}, err
	}
	held := err == nil
	of, err := readWorkloads(ctx, api, namespace)
	if err != nil {
		return statusReport{}, err
	}
	why := leaderless(held, &lease, of.pods, namespace, now)
	if why == "" && !of.podsUnseen && len(of.pods) == 0 {
		why = "no operator leads"
	}
	if why == "" {
		return statusOf(&cn, networks.Items, ""), nil
	}
	found := of.culprit()
	report := statusOf(&cn, networks.Items, why+prefixed("; ", found.message))
	report.blame(found, namespace, apiServerAddress(ctx, api))
	return report, nil
}

// noNetwork returns the error for a cluster without a ClusterNetwork. It names a pod of Weft that has a problem too.
func noNetwork(ctx context.Context, api client.Client, namespace string) error {
	err := fmt.Errorf("there is no ClusterNetwork %s, so there is no network: "+
		"create one, for example from config/samples/clusternetwork.yaml",
		networkv1alpha1.ClusterNetworkName)
	if of, unread := readWorkloads(ctx, api, namespace); unread == nil && !of.podsUnseen {
		if found := of.inTrouble(of.pods); found.message != "" {
			err = fmt.Errorf("%w; and %s", err, found.message)
		}
	}
	return err
}

// leaderless returns why the status may be out of date, or "" if an operator leads.
func leaderless(held bool, lease *coordinationv1.Lease, pods []corev1.Pod, namespace string, now time.Time) string {
	if !held {
		return fmt.Sprintf("no operator has ever led: the lease %s/%s does not exist", namespace, leaseName)
	}
	if _, err := leader(lease, pods, operatorLabels); err != nil && len(pods) > 0 {
		return err.Error()
	}
	if renewed := lease.Spec.RenewTime; renewed != nil && now.Sub(renewed.Time) > silentAfter {
		return fmt.Sprintf("no operator leads: the lease %s/%s was last renewed %s ago",
			namespace, leaseName, now.Sub(renewed.Time).Round(time.Second))
	}
	return ""
}

// statusOf computes the report. leaderless says why no operator leads, or is empty.
func statusOf(cn *networkv1alpha1.ClusterNetwork, networks []networkv1alpha1.NodeNetwork, leaderless string) statusReport {
	s := cn.Status
	r := statusReport{
		Generation: cn.Generation, Observed: s.ObservedGeneration, Conditions: s.Conditions,
		Areas: slices.Clone(s.Areas), Problems: slices.Clone(s.Problems), Versions: s.Versions, Rollout: s.Rollout,
		Refused: s.Refused, Computed: s.Computed, Healthy: isHealthy(cn) && leaderless == "", Removing: removalOf(cn),
	}
	if leaderless != "" {
		r.add(health.New(networkv1alpha1.AreaControlPlane, networkv1alpha1.StateUnavailable, health.ReasonNoLeader,
			"Deployment/weft-operator", leaderless+outdated(s)))
	} else if s.ObservedGeneration != cn.Generation {
		r.add(health.New(networkv1alpha1.AreaControlPlane, networkv1alpha1.StateProgressing, health.ReasonNotObserved,
			"ClusterNetwork/"+cn.Name, fmt.Sprintf("the operator has not seen generation %d of the spec yet", cn.Generation)))
	}
	for i := range networks {
		nn := &networks[i]
		n := nodeReport{Name: nn.Name, Pods: nn.Status.Pods, Free: nn.Status.Addresses, Problems: nn.Status.Problems,
			Message: "its agent has not reported yet"}
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

// outdated returns the warning that an existing status is out of date.
func outdated(s networkv1alpha1.ClusterNetworkStatus) string {
	if len(s.Conditions) == 0 {
		return ""
	}
	return "; the rest of this status is out of date"
}

// add adds a problem to the report and to its area.
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
