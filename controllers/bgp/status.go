package bgp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/bgp"
	"github.com/weft-network/weft/pkg/health"
)

// report writes the status of the objects that differ.
func (r *Reconciler) report(ctx context.Context, w bgp.World, result bgp.Result) error {
	sessions := sessionsOf(w.Networks)
	var errs []error
	for i := range w.Peers {
		if p := &w.Peers[i]; result.Peers[p.Name] != nil {
			errs = append(errs, r.reportPeer(ctx, p, result.Peers[p.Name], sessions[p.Name]))
		}
	}
	for i := range w.Advertisements {
		if a := &w.Advertisements[i]; result.Advertisements[a.Name] != nil {
			errs = append(errs, r.reportAdvertisement(ctx, a, result.Advertisements[a.Name]))
		}
	}
	r.count(result)
	return errors.Join(errs...)
}

// sessionsOf returns the sessions that agents report, by BGPPeer and node.
func sessionsOf(networks []networkv1alpha1.NodeNetwork) map[string]map[string]networkv1alpha1.NodeBGPSession {
	all := map[string]map[string]networkv1alpha1.NodeBGPSession{}
	for i := range networks {
		for _, session := range networks[i].Status.BGP {
			if all[session.Peer] == nil {
				all[session.Peer] = map[string]networkv1alpha1.NodeBGPSession{}
			}
			all[session.Peer][networks[i].Name] = session
		}
	}
	return all
}

// reportPeer writes the status of a BGPPeer.
func (r *Reconciler) reportPeer(ctx context.Context, p *networkv1alpha1.BGPPeer, found *bgp.Peer,
	sessions map[string]networkv1alpha1.NodeBGPSession) error {
	changed := p.DeepCopy()
	down := downNodes(found.Nodes, sessions, whyDown)
	changed.Status.Nodes = int32(len(found.Nodes))
	changed.Status.Established = int32(len(found.Nodes) - len(down))
	conditions := []metav1.Condition{peerCondition(p, found, networkv1alpha1.ConditionEstablished, networkv1alpha1.ReasonSessionsDown, down,
		"each selected node has a session")}
	changed.Status.BFDUp = nil
	if p.Spec.BFD == nil {
		meta.RemoveStatusCondition(&changed.Status.Conditions, networkv1alpha1.ConditionBFDUp)
	} else {
		down := downNodes(found.Nodes, sessions, whyBFDDown)
		changed.Status.BFDUp = new(int32(len(found.Nodes) - len(down)))
		conditions = append(conditions, peerCondition(p, found, networkv1alpha1.ConditionBFDUp, networkv1alpha1.ReasonBFDDown, down,
			"the BFD session of each selected node is up"))
	}
	if r.Counted != nil {
		r.Counted(p.Name, len(found.Nodes), int(changed.Status.Established), changed.Status.BFDUp)
	}
	return r.patch(ctx, p, changed, &p.Status.Conditions, &changed.Status.Conditions, conditions...)
}

// downNodes returns "node NAME: WHY" for each node whose session why finds fault with.
func downNodes(nodes []string, sessions map[string]networkv1alpha1.NodeBGPSession,
	why func(networkv1alpha1.NodeBGPSession) string) (down []string) {
	for _, node := range nodes {
		text := "its agent has not reported the session yet"
		if session, reported := sessions[node]; reported {
			text = why(session)
		}
		if text != "" {
			down = append(down, "node "+node+": "+text)
		}
	}
	return down
}

// whyDown returns why a session is not established, or "".
func whyDown(s networkv1alpha1.NodeBGPSession) string {
	if s.State == networkv1alpha1.BGPEstablished {
		return ""
	}
	return cmp.Or(s.Message, "connecting")
}

// whyBFDDown returns why the BFD session is not up, or "".
func whyBFDDown(s networkv1alpha1.NodeBGPSession) string {
	switch {
	case s.BFD == nil:
		return "its agent runs no BFD session"
	case s.BFD.State == networkv1alpha1.BFDUp:
		return ""
	}
	return cmp.Or(s.BFD.Message, "starting")
}

// peerCondition returns a condition about the sessions with a BGPPeer. What is wrong with the BGPPeer itself comes first.
func peerCondition(p *networkv1alpha1.BGPPeer, found *bgp.Peer, kind, reasonDown string, down []string, good string) metav1.Condition {
	reason, message := found.Reason, found.Message
	if reason == "" && len(down) > 0 {
		reason, message = reasonDown, sessionText(p)+": "+strings.Join(down, "; ")
	}
	return condition(kind, p.Generation, reason, message, good)
}

// sessionText names the fields by which a session may fail.
func sessionText(p *networkv1alpha1.BGPPeer) string {
	text := fmt.Sprintf("peerAddress %s, peerASN %d, myASN %d", p.Spec.PeerAddress, p.Spec.PeerASN, p.Spec.MyASN)
	if p.Spec.SourceAddress != "" {
		text += fmt.Sprint(", sourceAddress ", p.Spec.SourceAddress)
	}
	if p.Spec.PasswordKey != "" {
		text += ", passwordKey " + p.Spec.PasswordKey
	}
	return text
}

// reportAdvertisement writes the status of a BGPAdvertisement.
func (r *Reconciler) reportAdvertisement(ctx context.Context, a *networkv1alpha1.BGPAdvertisement, found *bgp.Advertisement) error {
	changed := a.DeepCopy()
	changed.Status.Prefixes, changed.Status.Nodes = int32(found.Prefixes), int32(found.Nodes)
	c := condition(networkv1alpha1.ConditionAdvertised, a.Generation, found.Reason, found.Message,
		"a node announces each selected address")
	return r.patch(ctx, a, changed, &a.Status.Conditions, &changed.Status.Conditions, c)
}

// condition returns a condition that is True without a reason against it.
func condition(kind string, generation int64, reason, message, good string) metav1.Condition {
	if reason == "" {
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, ObservedGeneration: generation,
			Reason: networkv1alpha1.ReasonAsExpected, Message: good}
	}
	return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, ObservedGeneration: generation, Reason: reason,
		Message: health.Cut(message)}
}

// patch writes a status with conditions if it differs, and records an event for each condition whose status or reason changes.
func (r *Reconciler) patch(ctx context.Context, before, after client.Object, had, has *[]metav1.Condition, all ...metav1.Condition) error {
	for _, c := range all {
		meta.SetStatusCondition(has, c)
	}
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	if err := kind.WriteStatus(ctx, r.Client, before, after); err != nil {
		return client.IgnoreNotFound(err)
	}
	for _, c := range all {
		r.record(after, meta.FindStatusCondition(*had, c.Type), c)
	}
	return nil
}

// record records an event if the status or the reason of a condition differs from before.
func (r *Reconciler) record(of client.Object, was *metav1.Condition, c metav1.Condition) {
	if was != nil && was.Status == c.Status && was.Reason == c.Reason {
		return
	}
	kind := corev1.EventTypeNormal
	if c.Status != metav1.ConditionTrue {
		kind = corev1.EventTypeWarning
	}
	r.Events.Eventf(runtime.Object(of), nil, kind, c.Reason, "Report"+c.Type, "%s",
		health.Cut(fmt.Sprintf("%s is %s: %s", c.Type, c.Status, c.Message)))
}

// count resets the counts of deleted BGPPeers.
func (r *Reconciler) count(result bgp.Result) {
	if r.Counted == nil {
		return
	}
	for _, name := range slices.Collect(maps.Keys(r.counted)) {
		if result.Peers[name] == nil {
			r.Counted(name, 0, 0, nil)
		}
	}
	r.counted = map[string]bool{}
	for name := range result.Peers {
		r.counted[name] = true
	}
}
