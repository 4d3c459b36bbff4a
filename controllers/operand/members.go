package operand

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/install/member"
	"github.com/weft-network/weft/pkg/install/render"
	"github.com/weft-network/weft/pkg/install/rollout"
)

const (
	// membersAgain is the interval at which the members of the databases are queried, because no event reports a
	// member that fell silent.
	membersAgain = 5 * time.Second
	// membersSoon is the interval while a member joins, or no member leads.
	membersSoon = time.Second
	// memberPatience is the time limit for a member's reply.
	memberPatience = 3 * time.Second
	// identitySecret has the key pair with which the operator authenticates to members.
	identitySecret = "weft-nb-tls"
)

// databases are the databases of a zone, or of the default zone.
type databases struct {
	// workload is the name of their StatefulSet, and component the label of its pods.
	workload, component string
	// text names the zone in events, like " of zone east". It is empty for the default zone.
	text  string
	place render.Place
	// status returns the place of the members' states in the status, or nil if the status does not have the zone.
	status func(*networkv1alpha1.ClusterNetworkStatus) **networkv1alpha1.DatabasesStatus
}

// allDatabases returns the databases whose pods follow the spec.
func allDatabases(place render.Place) []databases {
	all := []databases{{workload: render.Central, component: "central", place: place,
		status: func(s *networkv1alpha1.ClusterNetworkStatus) **networkv1alpha1.DatabasesStatus { return &s.Databases }}}
	for _, z := range place.Zones {
		if z.Frozen {
			continue
		}
		all = append(all, databases{workload: render.CentralOf(z.Name), component: "central-" + z.Name, text: " of zone " + z.Name,
			place: z.Place, status: func(s *networkv1alpha1.ClusterNetworkStatus) **networkv1alpha1.DatabasesStatus {
				if state := stateOf(s, z.Name); state != nil {
					return &state.Databases
				}
				return nil
			}})
	}
	return all
}

// membersOfAll calls members for all clustered databases, and standAlone for all others. again is when to query members again, or 0
// without members.
func (r *Reconciler) membersOfAll(ctx context.Context, cn *networkv1alpha1.ClusterNetwork,
	place render.Place) (again time.Duration, err error) {
	var failed []error
	for _, d := range allDatabases(place) {
		if !d.place.Clustered() {
			failed = append(failed, r.standAlone(ctx, cn, d))
			continue
		}
		soon, err := r.members(ctx, cn, d)
		failed = append(failed, err)
		if again == 0 || soon < again {
			again = soon
		}
	}
	return again, errors.Join(failed...)
}

// members sends each member of the databases its order, and reports their states. again is when to query them again.
func (r *Reconciler) members(ctx context.Context, cn *networkv1alpha1.ClusterNetwork, d databases) (again time.Duration, err error) {
	central := &appsv1.StatefulSet{}
	if err := r.Client.Get(ctx, r.own(d.workload), central); err != nil {
		return membersSoon, client.IgnoreNotFound(err)
	}
	if d.place.Dissolving && central.Annotations[render.AnnotationClusters] == "" {
		return membersSoon, nil // the clusters have just ended, after the place was read
	}
	if err := r.leaveOthers(ctx, cn, d); err != nil {
		return membersSoon, err
	}
	status, err := r.order(ctx, cn, d, central)
	if err != nil {
		return membersSoon, err
	}
	again = membersAgain
	if render.Awaited(status) {
		again = membersSoon
	}
	return again, r.reportMembers(ctx, cn, d, &status)
}

// order queries all members, decides, and sends the orders.
func (r *Reconciler) order(ctx context.Context, cn *networkv1alpha1.ClusterNetwork, d databases,
	central *appsv1.StatefulSet) (status networkv1alpha1.DatabasesStatus, err error) {
	place, noted := d.place, map[string]string{}
	if text := central.Annotations[render.AnnotationClusters]; text != "" {
		if err := json.Unmarshal([]byte(text), &noted); err != nil {
			return status, fmt.Errorf("annotation %s of StatefulSet %s: %w", render.AnnotationClusters, central.Name, err)
		}
	}
	id, err := r.identity(ctx)
	if err != nil {
		return status, err
	}
	observed := render.Observed{Place: place, Clusters: noted, Former: strings.Fields(central.Annotations[render.AnnotationFormer])}
	var silent map[string]string
	observed.States, silent = r.queryAll(ctx, id, place, nil)
	decision := render.Decide(observed)
	if !maps.Equal(decision.Clusters, noted) {
		if err := r.note(ctx, cn, d, central, decision.Clusters); err != nil {
			return status, err
		}
	}
	orders := map[string]member.Order{}
	for node, order := range decision.Orders {
		if state, answered := observed.States[node]; answered && render.NeedsOrder(order, state) {
			orders[node] = order
		}
	}
	states, _ := r.queryAll(ctx, id, place, orders)
	maps.Copy(observed.States, states)
	if decision.Dissolved {
		if err := r.forget(ctx, cn, d, central, noted); err != nil {
			return status, err
		}
	}
	return render.MembersOf(observed, silent, decision.Conflict), nil
}

// standAlone deletes the pods of former members, and their status.
func (r *Reconciler) standAlone(ctx context.Context, cn *networkv1alpha1.ClusterNetwork, d databases) error {
	central := &appsv1.StatefulSet{}
	if err := r.Client.Get(ctx, r.own(d.workload), central); err != nil {
		return client.IgnoreNotFound(err)
	}
	var failed []error
	if noted := central.Annotations[render.AnnotationClusters]; noted != "" { // all nodes of the members are gone
		clusters := map[string]string{}
		failed = append(failed, json.Unmarshal([]byte(noted), &clusters), r.forget(ctx, cn, d, central, clusters))
	}
	if central.Annotations[render.AnnotationFormer] != "" {
		failed = append(failed, r.leaveOthers(ctx, cn, d))
	}
	return errors.Join(append(failed, r.reportMembers(ctx, cn, d, nil))...)
}

// leaveOthers deletes pods of the databases on nodes that must have no member. On a node that is gone, such a pod
// would otherwise stay for a minute.
func (r *Reconciler) leaveOthers(ctx context.Context, cn *networkv1alpha1.ClusterNetwork, d databases) error {
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.InNamespace(r.Facts.Namespace),
		client.MatchingLabels{rollout.ComponentLabel: d.component}); err != nil {
		return err
	}
	var failed []error
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.Spec.NodeName == "" || slices.Contains(d.place.Nodes(), p.Spec.NodeName) {
			continue
		}
		uid := p.UID
		err := r.Client.Delete(ctx, p, client.Preconditions{UID: &uid}, client.GracePeriodSeconds(0))
		if err == nil {
			r.Events.Eventf(cn, nil, corev1.EventTypeNormal, "MemberLeft", "Apply",
				"pod %s is on node %s, which has no member of the databases%s any more", p.Name, p.Spec.NodeName, d.text)
		} else if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

func (r *Reconciler) identity(ctx context.Context) (id member.Identity, err error) {
	s := &corev1.Secret{}
	if err := r.Client.Get(ctx, r.own(identitySecret), s); err != nil {
		return id, err
	}
	return member.Identity{Key: s.Data[corev1.TLSPrivateKeyKey], Cert: s.Data[corev1.TLSCertKey], CA: s.Data["ca.crt"]}, nil
}

// queryAll queries all members concurrently, or sends their orders to members with an order. silent has the errors of
// members that did not reply.
func (r *Reconciler) queryAll(ctx context.Context, id member.Identity, place render.Place,
	orders map[string]member.Order) (states map[string]member.State, silent map[string]string) {
	ctx, cancel := context.WithTimeout(ctx, memberPatience)
	defer cancel()
	states, silent = map[string]member.State{}, map[string]string{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, m := range place.Members {
		order, ordered := orders[m.Node]
		if orders != nil && !ordered {
			continue
		}
		all.Go(func() {
			state, err := r.SendOrder(ctx, m.Addresses[0].String(), id, order)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				silent[m.Node] = words(err)
				return
			}
			states[m.Node] = state
		})
	}
	all.Wait()
	return states, silent
}

// words returns an error's text without the ports of a connection, which differ each time.
func words(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}

// note records the clusters in an annotation. It fails if the annotation has changed since it was read, so that an
// older value cannot return.
func (r *Reconciler) note(ctx context.Context, cn *networkv1alpha1.ClusterNetwork, d databases, central *appsv1.StatefulSet,
	clusters map[string]string) error {
	text, err := json.Marshal(clusters)
	if err != nil {
		return err
	}
	before := central.DeepCopy()
	if central.Annotations == nil {
		central.Annotations = map[string]string{}
	}
	central.Annotations[render.AnnotationClusters] = string(text)
	if err := r.Client.Patch(ctx, central, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}),
		fieldOwner); err != nil {
		return fmt.Errorf("StatefulSet %s: %w", central.Name, err)
	}
	r.Events.Eventf(cn, nil, corev1.EventTypeNormal, "ClusterMade", "Apply", "clusters of OVN's databases%s: %s", d.text, text)
	return nil
}

// forget records that clusters have ended.
func (r *Reconciler) forget(ctx context.Context, cn *networkv1alpha1.ClusterNetwork, d databases, central *appsv1.StatefulSet,
	clusters map[string]string) error {
	before := central.DeepCopy()
	former := strings.Fields(central.Annotations[render.AnnotationFormer])
	for _, database := range slices.Sorted(maps.Keys(clusters)) {
		former = append(former, clusters[database])
	}
	central.Annotations[render.AnnotationFormer] = strings.Join(former, " ")
	delete(central.Annotations, render.AnnotationClusters)
	if err := r.Client.Patch(ctx, central, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}),
		fieldOwner); err != nil {
		return fmt.Errorf("StatefulSet %s: %w", central.Name, err)
	}
	r.Events.Eventf(cn, nil, corev1.EventTypeNormal, "ClusterEnded", "Apply",
		"one member of OVN's databases%s is left, whose databases become standalone", d.text)
	return nil
}

// reportMembers writes the members' states to the status if they differ. Standalone databases have none.
func (r *Reconciler) reportMembers(ctx context.Context, cn *networkv1alpha1.ClusterNetwork, d databases,
	now *networkv1alpha1.DatabasesStatus) error {
	was := d.status(&cn.Status)
	if was == nil || equality.Semantic.DeepEqual(*was, now) {
		return nil
	}
	before := cn.DeepCopy()
	*was = now
	if err := r.Client.Status().Patch(ctx, cn, client.MergeFrom(before), fieldOwner); err != nil {
		return fmt.Errorf("status of ClusterNetwork %s: %w", cn.Name, err)
	}
	return nil
}
