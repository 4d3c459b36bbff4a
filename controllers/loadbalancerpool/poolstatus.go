package loadbalancerpool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/health"
	"github.com/weft-network/weft/pkg/ovndb"
)

// maxAnnouncements is how many addresses a pool announces, so that its status stays far below the limit of an object.
const maxAnnouncements = 4096

// report writes the status of a pool if it differs, and records what changed as events. applied is the database's reply.
func (r *Pools) report(ctx context.Context, pool *networkv1alpha1.LoadBalancerPool, d decision, applied error) error {
	before := kind.Detach(pool)
	pool.Status.NodeSelector = d.nodeSelector
	pool.Status.Total, pool.Status.Used = d.pool.Total(), int64(len(d.services))
	pool.Status.Free, pool.Status.InUse, pool.Status.Announcements = pool.Status.Total, nil, nil
	for _, a := range slices.SortedFunc(maps.Keys(d.services), netip.Addr.Compare) {
		if d.pool.Contains(a) {
			pool.Status.Free--
		}
		if len(pool.Status.InUse) < maxAnnouncements {
			pool.Status.InUse = append(pool.Status.InUse, networkv1alpha1.IP(a.String()))
		}
	}
	var rejected *ovndb.RejectedError
	if errors.As(applied, &rejected) {
		d.announced = nil
	}
	for _, a := range d.announced {
		pool.Status.Announcements = append(pool.Status.Announcements,
			networkv1alpha1.LoadBalancerAnnouncement{Address: networkv1alpha1.IP(a.Address.String()), Node: a.Node})
	}
	meta.SetStatusCondition(&pool.Status.Conditions, d.ready(pool.Generation))
	meta.SetStatusCondition(&pool.Status.Conditions, d.announcedCondition(pool.Generation, applied))
	if r.Announcing != nil {
		r.Announcing(pool.Name, pool.Status.Used, pool.Status.Free, int64(len(d.unannounced)))
	}
	if equality.Semantic.DeepEqual(before.Status, pool.Status) {
		return ovndb.IgnorePending(applied)
	}
	if err := kind.WriteStatus(ctx, r.Client, before, pool); err != nil {
		return client.IgnoreNotFound(err)
	}
	r.recordEvents(before, pool, d)
	return ovndb.IgnorePending(applied)
}

// ready returns the condition ConditionReady.
func (d decision) ready(generation int64) metav1.Condition {
	c := metav1.Condition{Type: networkv1alpha1.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: generation,
		Reason: networkv1alpha1.ReasonAsExpected, Message: "Services can get addresses of the pool"}
	if len(d.kept) > 0 {
		c.Reason = networkv1alpha1.ReasonAddressesKept
		c.Message = health.Cut(fmt.Sprintf("Services can get addresses of the pool, and keep %d that it does not give any more: %s",
			len(d.kept), strings.Join(d.kept, ", ")))
	}
	if len(d.foreign) > 0 {
		c.Reason = networkv1alpha1.ReasonAddressInUse
		c.Message = health.Cut(fmt.Sprintf("%s; they get none of %d addresses that hosts outside of the cluster have: %s", c.Message,
			len(d.foreign), strings.Join(d.foreign, ", ")))
	}
	if d.trouble != "" {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, d.reason, health.Cut(d.trouble)
	}
	return c
}

// announcedCondition returns the condition ConditionAnnounced.
func (d decision) announcedCondition(generation int64, applied error) metav1.Condition {
	c := metav1.Condition{Type: networkv1alpha1.ConditionAnnounced, Status: metav1.ConditionTrue, ObservedGeneration: generation,
		Reason: networkv1alpha1.ReasonAsExpected, Message: "a node answers for each address that a Service has"}
	var refused *ovndb.RejectedError
	if !d.pool.OnSegment {
		c.Message = "only BGPAdvertisements announce the pool, because spec.announceOnSegment is false; their status names the addresses"
	}
	switch {
	case d.unadvertised:
		c.Status, c.Reason = metav1.ConditionFalse, networkv1alpha1.ReasonNotAdvertised
		c.Message = "spec.announceOnSegment is false, and no BGPAdvertisement selects the pool"
	case errors.As(applied, &refused):
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, networkv1alpha1.ReasonDatabaseRefused, health.Cut(refused.Error())
	case len(d.unannounced) > 0:
		var lines []string
		for _, u := range d.unannounced {
			lines = append(lines, fmt.Sprintf("%s: %s", u.address, u.message))
		}
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, d.unannounced[0].reason, health.Cut(strings.Join(lines, "; "))
	case d.formerNodes:
		c.Status, c.Reason = metav1.ConditionFalse, networkv1alpha1.ReasonNoEligibleNode
		former := "all"
		if len(d.nodeSelector.MatchLabels)+len(d.nodeSelector.MatchExpressions) > 0 {
			former = metav1.FormatLabelSelector(d.nodeSelector)
		}
		c.Message = "spec.nodeSelector selects no node; the nodes of the former selector go on: " + former
	}
	return c
}

// recordEvents records on the Services which node answers for their addresses, and on the pool why it is refused.
func (r *Pools) recordEvents(before, after *networkv1alpha1.LoadBalancerPool, d decision) {
	former := map[netip.Addr]string{}
	for _, a := range before.Status.Announcements {
		if address, err := a.Address.Addr(); err == nil {
			former[address] = a.Node
		}
	}
	for _, a := range d.announced {
		from := former[a.Address]
		if from == a.Node {
			continue
		}
		for _, s := range d.services[a.Address] {
			if from == "" {
				r.Events.Eventf(s, nil, corev1.EventTypeNormal, "Announcing", "Announce", "node %s answers for %s", a.Node, a.Address)
			} else {
				r.Events.Eventf(s, nil, corev1.EventTypeNormal, "Announcing", "Announce", "node %s answers for %s instead of node %s",
					a.Node, a.Address, from)
			}
		}
	}
	was := meta.FindStatusCondition(before.Status.Conditions, networkv1alpha1.ConditionAnnounced)
	is := meta.FindStatusCondition(after.Status.Conditions, networkv1alpha1.ConditionAnnounced)
	if is.Status != metav1.ConditionTrue && (was == nil || was.Message != is.Message) {
		for _, u := range d.unannounced {
			for _, s := range d.services[u.address] {
				r.Events.Eventf(s, nil, corev1.EventTypeWarning, u.reason, "Announce", "no node answers for %s: %s", u.address, u.message)
			}
		}
	}
	had := meta.FindStatusCondition(before.Status.Conditions, networkv1alpha1.ConditionReady)
	ready := meta.FindStatusCondition(after.Status.Conditions, networkv1alpha1.ConditionReady)
	if ready.Reason != networkv1alpha1.ReasonAsExpected && (had == nil || had.Message != ready.Message) {
		r.Events.Eventf(after, nil, corev1.EventTypeWarning, ready.Reason, "ReconcileLoadBalancerPool", "%s", ready.Message)
	}
}
