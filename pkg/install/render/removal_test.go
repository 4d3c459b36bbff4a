package render

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

func pods(n int, more bool) Users {
	u := Users{More: more}
	for i := range n {
		u.Names = append(u.Names, fmt.Sprintf("ns/p%d", i))
	}
	return u
}

func TestUsersAreCountedAndNamed(t *testing.T) {
	for _, test := range []struct {
		users Users
		want  string
	}{
		{pods(0, false), "no pod uses the network"},
		{pods(1, false), "1 pod uses the network: ns/p0"},
		{pods(5, false), "5 pods use the network: ns/p0, ns/p1, ns/p2, ns/p3, ns/p4"},
		{pods(6, false), "6 pods use the network: ns/p0, ns/p1, ns/p2, ns/p3, ns/p4, ..."},
		{pods(500, true), "more than 500 pods use the network: ns/p0, ns/p1, ns/p2, ns/p3, ns/p4, ..."},
	} {
		if got := test.users.String(); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

// Nothing is removed without a confirmation of this ClusterNetwork's UID.
func TestNextRemovalStep(t *testing.T) {
	const uid, other = "u-1", "u-2"
	removing := func(reason string) []metav1.Condition {
		return []metav1.Condition{{Type: networkv1alpha1.ConditionRemoving, Status: metav1.ConditionTrue, Reason: reason}}
	}
	const waiting, started = networkv1alpha1.ReasonWaitingForConfirmation, networkv1alpha1.ReasonRemovingOperands
	begun, held := removing(started), removing(networkv1alpha1.ReasonPodsRemain)
	for _, test := range []struct {
		name         string
		confirmed    string
		conditions   []metav1.Condition
		users        Users
		keep, remove bool
		reason       string
		message      string
	}{
		{"not confirmed", "", nil, pods(0, false), true, false, waiting, "network.weft.dev/confirm-removal=u-1; no pod"},
		{"not confirmed, pods", "", nil, pods(2, false), true, false, waiting, "; 2 pods use the network: ns/p0, ns/p1"},
		{"another UID", other, nil, pods(0, false), true, false, waiting, "u-1"},
		{"the name instead of the UID", "default", nil, pods(0, false), true, false, waiting, "u-1"},
		{"confirmed, pods", uid, nil, pods(1, false), true, false, networkv1alpha1.ReasonPodsRemain, "while 1 pod uses"},
		{"the pods are gone", uid, held, pods(0, false), false, true, started, "agents"},
		{"confirmation withdrawn", "", held, pods(0, false), true, false, waiting, "u-1"},
		{"begun, then a new pod", uid, begun, pods(1, false), false, true, started, "agents"},
		{"begun, then the confirmation was withdrawn", "", begun, pods(0, false), false, false, started, "stopped"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cn := &networkv1alpha1.ClusterNetwork{}
			cn.Name, cn.UID, cn.Finalizers = "default", uid, []string{Finalizer}
			if test.confirmed != "" {
				cn.Annotations = map[string]string{networkv1alpha1.ConfirmRemovalAnnotation: test.confirmed}
			}
			cn.Status.Conditions = test.conditions
			got := NextRemovalStep(cn, test.users)
			if got.Keep != test.keep || got.Remove != test.remove || got.Reason != test.reason ||
				!strings.Contains(got.Message, test.message) {
				t.Errorf("step %+v, want keep %t, remove %t, %s: %s", got, test.keep, test.remove, test.reason, test.message)
			}
		})
	}
}
