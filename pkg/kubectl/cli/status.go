package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	policyv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/spf13/cobra"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/health"
)

// silentAfter is the age of a lease's last renewal after which no operator is considered the leader. It is much
// longer than the lease, because clocks differ.
const silentAfter = time.Minute

// statusReport is the answer of "kubectl weft status".
type statusReport struct {
	// Healthy means that nobody waits: the network is healthy, and Refused is empty.
	Healthy bool `json:"healthy"`
	// NetworkHealthy means that the network is ready for the present specs, without problems and without changes in progress.
	NetworkHealthy bool `json:"networkHealthy"`
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
	// Unread says what the user may not read. Then the network does not count as healthy.
	Unread []string `json:"unread,omitempty"`
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
its nodes. The command reads the objects of Weft, the workloads in Weft's namespace and the operator's
lease, and writes nothing.

--wait waits until the operator has seen what was applied, and all workloads of Weft run as their
templates say. It does not wait for the requests of namespaces, which the status lists at its end.

Exit codes: 0 nobody waits: no problem, no change in progress, no refused request (with --wait: the
network is healthy, whatever namespaces request); 1 otherwise, or not within --timeout, or the user
may not read a part; 2 an error, such as a cluster without a ClusterNetwork.`,
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
	if err := cmp.Or(s.format.check(), positive("timeout", s.timeout), given(c, "timeout", "wait")); err != nil {
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
	if !report.Healthy && (!s.wait || !report.NetworkHealthy) {
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
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), networkv1alpha1.AddToScheme(scheme),
		policyv1alpha1.Install(scheme), policyv1alpha2.Install(scheme)); err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
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
	return judge(ctx, api, namespace, now, true)
}

// judge computes the report, without its nodes if they are not needed: there may be thousands.
func judge(ctx context.Context, api client.Client, namespace string, now time.Time, withNodes bool) (statusReport, error) {
	cn, err := network(ctx, api)
	if errors.Is(err, errNoNetwork) {
		return statusReport{}, noNetwork(ctx, api, namespace)
	} else if err != nil {
		return statusReport{}, err
	}
	var networks networkv1alpha1.NodeNetworkList
	if withNodes {
		if err := api.List(ctx, &networks); err != nil {
			return statusReport{}, err
		}
	}
	var nodes corev1.NodeList
	if withNodes { // a second source: an operator that is away reports no lost node
		if err := api.List(ctx, &nodes); err != nil && !apierrors.IsForbidden(err) {
			return statusReport{}, err
		}
	}
	var lease coordinationv1.Lease
	err = api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: leaseName}, &lease)
	if client.IgnoreNotFound(err) != nil {
		return statusReport{}, err
	}
	held := err == nil
	of, err := readWorkloads(ctx, api, namespace)
	if err != nil {
		return statusReport{}, err
	}
	objects, unread, err := readObjects(ctx, api)
	if err != nil {
		return statusReport{}, err
	}
	why := leaderless(held, &lease, of.pods, namespace, now)
	if why == "" && !of.podsUnseen && len(of.pods) == 0 {
		why = "no operator leads"
	}
	found := culprit{}
	if why != "" {
		found = of.culprit()
		why += prefixed("; ", found.message)
	}
	report := statusOf(cn, networks.Items, why)
	if why != "" {
		report.blame(found, namespace, apiServerAddress(ctx, api))
	}
	report.addNodes(nodes.Items)
	report.Unread = append(of.unread, unread...)
	report.include(of.rollouts(cn.Status.Rollout), objects)
	return report, nil
}

// readObjects reads the objects of Weft with conditions. unread says which of them the user may not list.
func readObjects(ctx context.Context, api client.Client) (all []health.Object, unread []string, err error) {
	for _, k := range slices.Concat(health.Kinds(), health.PolicyKinds()) {
		list, ok := k.List.(client.ObjectList)
		if !ok {
			continue
		}
		err := api.List(ctx, list)
		switch {
		case apierrors.IsForbidden(err):
			unread = append(unread, explain(ctx, err).Error())
		case meta.IsNoMatchError(err): // the CRDs are of an earlier version, or of network-policy-api
		case err != nil:
			return nil, nil, err
		}
		all = append(all, health.ObjectsOf(list)...)
	}
	return all, unread, nil
}

// noNetwork returns the error for a cluster without a ClusterNetwork. It names a pod of Weft that has a problem too.
func noNetwork(ctx context.Context, api client.Client, namespace string) error {
	err := fmt.Errorf("%w, so there is no network: create one, for example from config/samples/clusternetwork.yaml", errNoNetwork)
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
		Refused: s.Refused, Computed: s.Computed, Removing: removalOf(cn),
		NetworkHealthy: isHealthy(cn) && leaderless == "",
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
	r.sum()
	r.sortNodes()
	return r
}

// addNodes adds what Kubernetes says of the nodes: the last report of an agent says nothing about a node that is down.
func (r *statusReport) addNodes(nodes []corev1.Node) {
	for i := range nodes {
		at := slices.IndexFunc(r.Nodes, func(n nodeReport) bool { return n.Name == nodes[i].Name })
		ready := slices.IndexFunc(nodes[i].Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
		if at < 0 || ready < 0 || nodes[i].Status.Conditions[ready].Status == corev1.ConditionTrue {
			continue
		}
		c := nodes[i].Status.Conditions[ready]
		if n := &r.Nodes[at]; n.Ready {
			n.Ready, n.Message = false, "Kubernetes: the node is not ready: "+c.Message
		}
		if c.Status == corev1.ConditionUnknown {
			p := health.New(networkv1alpha1.AreaNodes, networkv1alpha1.StateDegraded, networkv1alpha1.ReasonNodeLost, "Node/"+nodes[i].Name,
				"Kubernetes receives no heartbeats from the kubelet of node "+nodes[i].Name)
			if !slices.ContainsFunc(r.Problems, func(have networkv1alpha1.Problem) bool { return isReported(p, have) }) {
				r.add(p)
			}
		}
	}
	r.sortNodes()
	r.sum()
}

// sortNodes sorts the nodes, the worst first.
func (r *statusReport) sortNodes() {
	slices.SortStableFunc(r.Nodes, func(a, b nodeReport) int {
		return cmp.Or(boolOf(a.Ready)-boolOf(b.Ready), len(b.Problems)-len(a.Problems), cmp.Compare(a.Name, b.Name))
	})
}

// outdated returns the warning that an existing status is out of date.
func outdated(s networkv1alpha1.ClusterNetworkStatus) string {
	if len(s.Conditions) == 0 {
		return ""
	}
	return "; the rest of this status is out of date"
}

// include adds what the command has found by itself: the workloads, and the objects that the operator has not judged or
// reported yet.
func (r *statusReport) include(rollouts []networkv1alpha1.Problem, objects []health.Object) {
	found := rollouts
	for _, o := range objects {
		if p, unobserved := o.Unobserved(); unobserved {
			found = append(found, p)
		} else {
			problems, _ := o.Problems()
			found = append(found, problems...)
		}
	}
	reported := slices.Clone(r.Problems)
	for _, p := range health.Together(found) {
		if !slices.ContainsFunc(reported, func(have networkv1alpha1.Problem) bool { return isReported(p, have) }) {
			r.add(p)
		}
	}
	r.sum()
}

// isReported reports whether a problem of the status covers p: it names the same workload, or has the same reason for the same kind.
func isReported(p, have networkv1alpha1.Problem) bool {
	of, _, _ := strings.Cut(p.Object, "/")
	return p.Object == have.Object || p.Reason == have.Reason && strings.HasPrefix(have.Object, of+"/")
}

// sum computes whether the network is healthy, and whether nobody waits.
func (r *statusReport) sum() {
	r.NetworkHealthy = r.NetworkHealthy && len(r.Problems) == 0 && len(r.Unread) == 0
	r.Healthy = r.NetworkHealthy && r.Refused == nil
}

// add adds a problem to the report and to its area.
func (r *statusReport) add(p networkv1alpha1.Problem) {
	r.Problems = health.Sort(append([]networkv1alpha1.Problem{p}, r.Problems...))
	for i := range r.Areas {
		if r.Areas[i].Name == p.Area && health.Worse(p.State, r.Areas[i].State) {
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
