package agent

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

// maxDemands bounds those that wait to be told: who asks tries again, and so does ovn-controller tell again.
const maxDemands = 64

// idlers tells, by events, which idle services are asked for on this node.
type idlers struct {
	client   client.Reader
	recorder events.EventRecorder
	demands  chan demand
}

func newIdlers(c client.Reader, recorder events.EventRecorder) *idlers {
	return &idlers{client: c, recorder: recorder, demands: make(chan demand, maxDemands)}
}

// demanded runs in the database's event loop.
func (i *idlers) demanded(vip, protocol string) {
	select {
	case i.demands <- demand{vip, protocol}:
	default:
	}
}

func (i *idlers) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case d := <-i.demands:
			if err := i.tell(ctx, d); err != nil {
				ctrl.Log.WithName("idle").Info("a service that is asked for is not told of", "vip", d.vip, "reason", err.Error())
			}
		}
	}
}

// tell records the event, if the service is idle yet: what the database has may be old.
func (i *idlers) tell(ctx context.Context, d demand) error {
	vip, err := netip.ParseAddrPort(d.vip)
	if err != nil {
		return fmt.Errorf("VIP %q: %w", d.vip, err)
	}
	var list corev1.ServiceList
	if err := i.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	for n := range list.Items {
		if s := &list.Items[n]; s.Annotations[networkv1alpha1.IdleAnnotation] == "true" && serves(s, vip, d.protocol) {
			regarding := &corev1.Service{ObjectMeta: s.ObjectMeta}
			regarding.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Service"))
			i.recorder.Eventf(regarding, nil, corev1.EventTypeNormal, networkv1alpha1.EventNeedPods, "WakeService", "%s %s is asked for and has no endpoint", d.protocol, d.vip)
		}
	}
	return nil
}

// serves reports whether a service has the address and port, as its own or as a node port.
func serves(s *corev1.Service, vip netip.AddrPort, protocol string) bool {
	text := vip.Addr().String()
	known := slices.Contains(s.Spec.ClusterIPs, text) || slices.Contains(s.Spec.ExternalIPs, text) ||
		slices.ContainsFunc(s.Status.LoadBalancer.Ingress, func(in corev1.LoadBalancerIngress) bool { return in.IP == text })
	return slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool {
		return strings.EqualFold(string(p.Protocol), protocol) && (known && p.Port == int32(vip.Port()) || !known && p.NodePort == int32(vip.Port()))
	})
}
