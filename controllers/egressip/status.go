package egressip

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovndb"
)

// isRefused reports whether the condition says that the database refuses the rows of this spec.
func isRefused(e *networkv1alpha1.EgressIP) bool {
	c := meta.FindStatusCondition(e.Status.Conditions, networkv1alpha1.ConditionAssigned)
	return c != nil && c.Reason == networkv1alpha1.ReasonDatabaseRefused && c.ObservedGeneration == e.Generation
}

// record writes a decision to the status of e if it differs. With refused, the condition stays until the database's
// next reply. Otherwise it would change with each attempt, and each write would cause the next attempt.
func (r *Reconciler) record(ctx context.Context, e *networkv1alpha1.EgressIP, d decision, refused bool) error {
	before := kind.Detach(e)
	e.Status.Items, e.Status.Held = nil, nil
	for _, a := range facts.GrantedEgressAddresses(before) {
		isAssigned := slices.ContainsFunc(d.assigned, func(assigned facts.Assignment) bool { return assigned.Address == a })
		if !isAssigned && slices.Contains(e.Spec.EgressIPs, networkv1alpha1.EgressAddress(a.String())) {
			e.Status.Held = append(e.Status.Held, networkv1alpha1.IP(a.String()))
		}
	}
	for _, a := range d.assigned {
		e.Status.Items = append(e.Status.Items,
			networkv1alpha1.EgressIPStatusItem{EgressIP: networkv1alpha1.IP(a.Address.String()), Node: a.Node})
	}
	e.Status.Former = nil
	for _, a := range d.kept {
		e.Status.Former = append(e.Status.Former, networkv1alpha1.IP(a.String()))
	}
	e.Status.Probing = nil
	for _, a := range d.probing {
		e.Status.Probing = append(e.Status.Probing, networkv1alpha1.IP(a.String()))
	}
	changed := !refused && meta.SetStatusCondition(&e.Status.Conditions, d.condition(e))
	if slices.Equal(before.Status.Items, e.Status.Items) && slices.Equal(before.Status.Former, e.Status.Former) &&
		slices.Equal(before.Status.Held, e.Status.Held) && slices.Equal(before.Status.Probing, e.Status.Probing) && !changed {
		return nil
	}
	if err := kind.WriteStatus(ctx, r.Client, before, e); err != nil {
		return client.IgnoreNotFound(err)
	}
	r.recordEvents(before, e, d)
	return nil
}

// condition returns the condition that reports whether a node carries each address.
func (d decision) condition(e *networkv1alpha1.EgressIP) metav1.Condition {
	c := metav1.Condition{Type: networkv1alpha1.ConditionAssigned, Status: metav1.ConditionFalse, ObservedGeneration: e.Generation}
	switch {
	case d.trouble != "":
		c.Reason, c.Message = d.reason, d.trouble
	case len(d.unassigned) > 0:
		var texts []string
		for _, u := range d.unassigned {
			texts = append(texts, fmt.Sprintf("%s: %s", u.Address, u.Message))
		}
		for _, a := range d.kept {
			texts = append(texts, fmt.Sprintf("spec.egressIPs had %s, which stays in use", a))
		}
		c.Reason, c.Message = d.unassigned[0].Reason, strings.Join(texts, "; ")
	case len(d.silent) > 0:
		c.Status, c.Reason = metav1.ConditionUnknown, networkv1alpha1.ReasonNodesUnreachable
		c.Message = "no node that could carry an address responds; the addresses stay where they are"
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, networkv1alpha1.ReasonAsExpected, "nodes carry all addresses"
		if d.selectsNone {
			c.Message += kind.SelectsNoPod
		}
	}
	return c
}

// recordEvents records events for addresses that were assigned, moved or removed.
func (r *Reconciler) recordEvents(before, after *networkv1alpha1.EgressIP, d decision) {
	was, is := nodes(before), nodes(after)
	for _, item := range after.Status.Items {
		switch from := was[item.EgressIP]; from {
		case item.Node:
		case "":
			r.Events.Eventf(after, nil, corev1.EventTypeNormal, "EgressIPAssigned", "AssignEgressIP",
				"node %s carries %s", item.Node, item.EgressIP)
		default:
			r.Events.Eventf(after, nil, corev1.EventTypeWarning, "EgressIPMoved", "AssignEgressIP",
				"%s moved from node %s to %s", item.EgressIP, from, item.Node)
		}
	}
	for _, item := range before.Status.Items {
		if is[item.EgressIP] == "" {
			r.Events.Eventf(after, nil, corev1.EventTypeWarning, "EgressIPUnassigned", "AssignEgressIP",
				"node %s does not carry %s any more: %s",
				item.Node, item.EgressIP, d.why(item.EgressIP))
		}
	}
	c := meta.FindStatusCondition(after.Status.Conditions, networkv1alpha1.ConditionAssigned)
	old := meta.FindStatusCondition(before.Status.Conditions, networkv1alpha1.ConditionAssigned)
	if c.Status != metav1.ConditionTrue && c.Reason != networkv1alpha1.ReasonProbing && (old == nil || old.Message != c.Message) {
		r.Events.Eventf(after, nil, corev1.EventTypeWarning, c.Reason, "AssignEgressIP", "%s", c.Message)
	}
}

func nodes(e *networkv1alpha1.EgressIP) map[networkv1alpha1.IP]string {
	found := map[networkv1alpha1.IP]string{}
	for _, item := range e.Status.Items {
		found[item.EgressIP] = item.Node
	}
	return found
}

// why returns why no node carries an address.
func (d decision) why(address networkv1alpha1.IP) string {
	for _, u := range d.unassigned {
		if u.Address.String() == string(address) {
			return u.Message
		}
	}
	if d.trouble != "" {
		return d.trouble
	}
	return "it is not in the spec any more"
}

// refused sets the condition to the database's refusal of the rows, in its own words.
func (r *Reconciler) refused(ctx context.Context, e *networkv1alpha1.EgressIP, applied error) error {
	var rejected *ovndb.RejectedError
	if !errors.As(applied, &rejected) {
		return applied
	}
	before := kind.Detach(e)
	if !meta.SetStatusCondition(&e.Status.Conditions,
		metav1.Condition{Type: networkv1alpha1.ConditionAssigned, Status: metav1.ConditionFalse,
			ObservedGeneration: e.Generation, Reason: networkv1alpha1.ReasonDatabaseRefused, Message: rejected.Err.Error()}) {
		return applied
	}
	return errors.Join(applied, client.IgnoreNotFound(kind.WriteStatus(ctx, r.Client, before, e)))
}
