// Package idle records events for idle services that clients connect to.
package idle

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// demand is a connection to a service that has no endpoint.
type demand struct{ vip, protocol string }

// maxDemands limits the queue of demands. A dropped demand does no harm, because a client that connects again causes
// another one.
const maxDemands = 64

// Recorder records an event on each idle service that a client on this node connects to.
type Recorder struct {
	client   client.Reader
	recorder events.EventRecorder
	demands  chan demand
}

// New returns a recorder that reads services from c.
func New(c client.Reader, recorder events.EventRecorder) *Recorder {
	return &Recorder{client: c, recorder: recorder, demands: make(chan demand, maxDemands)}
}

// Demanded receives a connection to a service without endpoints. It does not wait, because the database's event loop calls it.
func (i *Recorder) Demanded(vip, protocol string) {
	select {
	case i.demands <- demand{vip, protocol}:
	default:
	}
}

// Run records events until ctx ends.
func (i *Recorder) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case d := <-i.demands:
			if err := i.record(ctx, d); err != nil {
				ctrl.Log.WithName("idle").Info("cannot record that an idle service is needed", "vip", d.vip, "reason", err.Error())
			}
		}
	}
}

// record records the event if the service is still idle, because the database may lag behind the API server.
func (i *Recorder) record(ctx context.Context, d demand) error {
	vip, err := netip.ParseAddrPort(d.vip)
	if err != nil {
		return fmt.Errorf("VIP %q: %w", d.vip, err)
	}
	var list corev1.ServiceList
	if err := i.client.List(ctx, &list); err != nil {
		return err
	}
	for n := range list.Items {
		if s := &list.Items[n]; s.Annotations[networkv1alpha1.IdleAnnotation] == "true" && serves(s, vip, d.protocol) {
			regarding := &corev1.Service{ObjectMeta: s.ObjectMeta}
			regarding.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Service"))
			i.recorder.Eventf(regarding, nil, corev1.EventTypeNormal, networkv1alpha1.EventNeedPods, "WakeService",
				"a client connects to %s %s, which has no endpoint", d.protocol, d.vip)
		}
	}
	return nil
}

// serves reports whether the service has the address and port, or the port as a node port.
func serves(s *corev1.Service, vip netip.AddrPort, protocol string) bool {
	text := vip.Addr().String()
	own := slices.Contains(s.Spec.ClusterIPs, text) || slices.Contains(s.Spec.ExternalIPs, text) ||
		slices.ContainsFunc(s.Status.LoadBalancer.Ingress, func(in corev1.LoadBalancerIngress) bool { return in.IP == text })
	return slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool {
		return strings.EqualFold(string(p.Protocol), protocol) &&
			(own && p.Port == int32(vip.Port()) || !own && p.NodePort == int32(vip.Port()))
	})
}
