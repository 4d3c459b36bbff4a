//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// TestIdleService calls a service whose pods are scaled to zero. The call is not refused, an event on the service
// reports that it needs pods, and the service answers as soon as its pods run.
func TestIdleService(t *testing.T) {
	from := bed.peerPod("idle-client", "n2")
	sleeping := service("idle", "idle")
	sleeping.Annotations = map[string]string{networkv1alpha1.IdleAnnotation: "true"}
	bed.create(t, sleeping)
	bed.run(t, from)
	to := netip.AddrPortFrom(netip.MustParseAddr(sleeping.Spec.ClusterIPs[0]), 80)
	eventually(t, 30*time.Second, func() error {
		all, err := bed.podCaller(from).call(t.Context(), "tcp", to, 1)
		if err != nil {
			return err
		}
		if all[0].Refused || all[0].Server != "" {
			return fmt.Errorf("the call returned %+v", all[0])
		}
		var events eventsv1.EventList
		if err := bed.api.List(t.Context(), &events, client.InNamespace(namespace)); err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Reason == networkv1alpha1.EventNeedPods && e.Regarding.Kind == "Service" && e.Regarding.Name == sleeping.Name {
				return nil
			}
		}
		return fmt.Errorf("no event %s", networkv1alpha1.EventNeedPods)
	})
	server := labelled(bed.peerPod("idle-server", "n1"), "idle")
	bed.run(t, server)
	eventually(t, 20*time.Second, func() error {
		all, err := bed.podCaller(from).call(t.Context(), "tcp", to, 1)
		if err == nil {
			_, err = answered(all, []string{server.Name})
		}
		return err
	})
}
