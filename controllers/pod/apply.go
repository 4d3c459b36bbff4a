package pod

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/floating"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/health"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/podcondition"
	"github.com/weft-network/weft/pkg/topology"
)

// port reads what a port needs besides its addresses, and assembles the port.
func (r *Reconciler) port(ctx context.Context, p *request, s *surroundings, d decision, t taken) (
	want topology.Pod, refused refusedPorts, err error) {
	want = portOf(p, s, d, t)
	if s.place == elsewhere {
		return want, refused, nil
	}
	if p.bandwidthErr != nil { // its previous limits are not stored
		r.Events.Eventf(p.pod, nil, corev1.EventTypeWarning, "InvalidBandwidth", "LimitBandwidth",
			"the limits are invalid, so that the pod's traffic is not limited: %v", p.bandwidthErr)
	}
	if err := r.addWaysOut(ctx, &want, s.node); err != nil {
		return want, refused, err
	}
	if slices.ContainsFunc(want.NextHops, func(hop facts.NextHop) bool { return hop.BFD }) {
		r.Triggers.Enqueue(topology.KindGateway, types.NamespacedName{Name: p.node})
	}
	want.HostPorts, refused, err = r.hostPorts(ctx, p)
	return want, refused, err
}

// addWaysOut adds the ways by which the pod's addresses of IPPools leave. A server older than OVN 24.09 gets no translation with a
// match: without the match, it would apply to every packet.
func (r *Reconciler) addWaysOut(ctx context.Context, to *topology.Pod, nn *networkv1alpha1.NodeNetwork) error {
	if len(to.Floating) == 0 && len(to.Translated) == 0 {
		return nil
	}
	gateway, err := r.gateway(ctx, nn)
	to.WaysOut = gateway.WaysOut()
	if gateway.HasRouter() && r.Database.Has(nbdb.NATTable, "match") {
		to.Clusters = gateway.Clusters
	}
	return err
}

// apply writes the port of a pod, its conditions and its record. A pod whose node is away, or in another zone, is not reported on.
func (r *Reconciler) apply(ctx context.Context, p *request, s *surroundings, d decision, t taken) error {
	want, refused, err := r.port(ctx, p, s, d, t)
	if err != nil {
		return err
	}
	u := topology.PodUnit
	if s.place == elsewhere {
		u = topology.PodElsewhereUnit
	}
	applied := r.Database.Apply(ctx, u(want))
	if ovndb.IgnorePending(applied) == nil {
		r.holdOnly(p.owner, t.given)
	}
	if s.place != here {
		return ovndb.IgnorePending(applied)
	}
	r.state.made(p.owner, p.node, d.chassis)
	reported := r.report(ctx, p, applied, t.denied, refused)
	if ovndb.IgnorePending(applied) == nil {
		return errors.Join(reported, r.record(ctx, p.pod, s.node, t.assigned))
	}
	var rejected *ovndb.RejectedError
	if errors.As(applied, &rejected) { // when the process ends, the error is not the pod's
		r.Events.Eventf(p.pod, nil, corev1.EventTypeWarning, "FailedPortCreation", "CreatePort", "%v", applied)
	}
	return errors.Join(applied, reported)
}

// report writes the pod's conditions: whether the database refuses its port, with the error, which of its requests are not
// granted, and which of its host ports are refused. It also writes their end. A pod that was never refused has no such
// condition and costs no write.
func (r *Reconciler) report(ctx context.Context, p *request, applied, denied error, ports refusedPorts) error {
	if unreadable := p.unreadable(); denied == nil && !errors.Is(unreadable, errHostPorts) { // hostPortsReady reports those
		denied = unreadable // the pod would not get its address again
	}
	pod, ready, hostPorts := p.pod, portReady(p.pod, applied), hostPortsReady(p.pod, ports)
	if hostPorts != nil && len(ports.reserved) > 0 {
		r.Events.Eventf(pod, nil, corev1.EventTypeWarning, "ReservedHostPort", "MapHostPort", "%s", health.Cut(hostPorts.Message))
	}
	return r.patchConditions(ctx, pod, applied != nil, ready, requestsGranted(pod, denied), hostPorts)
}

// patchConditions writes conditions of a pod. A nil condition is as wanted already. again means that the caller reconciles
// the pod again in any case.
func (r *Reconciler) patchConditions(ctx context.Context, pod *corev1.Pod, again bool, wanted ...*corev1.PodCondition) error {
	patched := pod.DeepCopy()
	changed := false
	for _, want := range wanted {
		if want != nil {
			podcondition.Set(&patched.Status, *want)
			changed = true
		}
	}
	if !changed {
		return nil
	}
	err := kind.WritePodStatus(ctx, r.Client, pod, patched)
	if again && apierrors.IsConflict(err) {
		return nil // the next attempt at the port writes the condition
	}
	return client.IgnoreNotFound(err)
}

// requestsGranted returns the condition of a pod whose request was denied, or nil if it is as wanted already. An error of
// the system is no denial.
func requestsGranted(pod *corev1.Pod, denied error) *corev1.PodCondition {
	reason, message := networkv1alpha1.ReasonInvalidRequest, ""
	if denied != nil {
		message = health.Cut(denied.Error())
	}
	switch {
	case errors.As(denied, new(*floating.UnavailableError)), errors.Is(denied, alloc.ErrUnavailable):
		reason = networkv1alpha1.ReasonAddressUnavailable
	case errors.Is(denied, ipam.ErrExhausted):
		reason = networkv1alpha1.ReasonAddressesExhausted
	}
	return of(podcondition.OfFailures(pod, networkv1alpha1.PodRequestsGranted, reason, message))
}

// hostPortsReady returns the condition to write, or nil.
func hostPortsReady(pod *corev1.Pod, refused refusedPorts) *corev1.PodCondition {
	reason := networkv1alpha1.ReasonInvalidRequest
	if len(refused.reserved) > 0 {
		reason = networkv1alpha1.ReasonReserved
	}
	return of(podcondition.OfFailures(pod, networkv1alpha1.PodHostPortsReady, reason,
		strings.Join(slices.Concat(refused.reserved, refused.invalid), "; ")))
}

func of(want corev1.PodCondition, ok bool) *corev1.PodCondition {
	if !ok {
		return nil
	}
	return &want
}

// portReady returns the condition to write, or nil.
func portReady(pod *corev1.Pod, applied error) *corev1.PodCondition {
	have := podcondition.Find(pod, networkv1alpha1.PodPortReady)
	want := corev1.PodCondition{Type: networkv1alpha1.PodPortReady}
	var refused *ovndb.RejectedError
	switch {
	case errors.As(applied, &refused):
		want.Status, want.Reason, want.Message = corev1.ConditionFalse, networkv1alpha1.ReasonDatabaseRefused, refused.Err.Error()
	case applied == nil && have != nil:
		want.Status, want.Reason = corev1.ConditionTrue, networkv1alpha1.ReasonAsExpected
	default:
		return nil
	}
	return of(want, podcondition.Differs(have, &want))
}

// record writes the VIF record to the pod if it was requested. It runs after the port is written, and nothing waits
// for it.
func (r *Reconciler) record(ctx context.Context, pod *corev1.Pod, nn *networkv1alpha1.NodeNetwork, got alloc.Assignment) error {
	wanted, err := r.recordWanted(ctx, pod)
	if err != nil || !wanted || nn.Spec.MTU == 0 {
		return err
	}
	text, err := vif(pod, nn, got)
	if err != nil {
		return fmt.Errorf("pod %s: %w", client.ObjectKeyFromObject(pod), err)
	}
	if pod.Annotations[networkv1alpha1.PodNetworksAnnotation] == text {
		return nil
	}
	patched := pod.DeepCopy()
	metav1.SetMetaDataAnnotation(&patched.ObjectMeta, networkv1alpha1.PodNetworksAnnotation, text)
	// The resource version makes the patch fail on a pod that was recreated under this name.
	return client.IgnoreNotFound(kind.Write(ctx, r.Client, pod, patched))
}

// recordWanted reports whether the pod, its namespace or the ClusterNetwork requests the record.
func (r *Reconciler) recordWanted(ctx context.Context, pod *corev1.Pod) (bool, error) {
	if pod.Annotations[networkv1alpha1.PodRecordAnnotation] == "true" {
		return true, nil
	}
	namespace, err := r.namespace(ctx, pod.Namespace)
	if err == nil && namespace.Annotations[networkv1alpha1.PodRecordAnnotation] == "true" {
		return true, nil
	}
	var cn networkv1alpha1.ClusterNetwork
	err = r.Client.Get(ctx, types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, &cn)
	return err == nil && cn.Spec.PodRecord == networkv1alpha1.PodRecordAlways, client.IgnoreNotFound(err)
}

// vif returns the pod's VIF record.
func vif(pod *corev1.Pod, nn *networkv1alpha1.NodeNetwork, got alloc.Assignment) (string, error) {
	dns, err := nn.Spec.DNS.ForPod(pod)
	if err != nil {
		return "", err
	}
	network := networkv1alpha1.PodNetwork{
		Name: names.DefaultNetwork, Default: true, Interface: networkv1alpha1.DefaultInterfaceName,
		InterfaceID: names.PodPort(names.DefaultNetwork, pod.Namespace, pod.Name), PodUID: types.UID(networkv1alpha1.InterfaceUID(pod)),
		MACAddress: got.MAC.String(), Addresses: got.Addresses, MTU: int(nn.Spec.MTU), DNS: dns,
	}
	if network.Gateways, err = gatewaysOf(nn.Spec, got); err != nil {
		return "", err
	}
	return networkv1alpha1.MarshalPodNetworks([]networkv1alpha1.PodNetwork{network})
}

// gatewaysOf returns the gateways of the node's subnets that have an address of the pod, and for floating addresses the
// node's first gateway of their family.
func gatewaysOf(spec networkv1alpha1.NodeNetworkSpec, got alloc.Assignment) (gateways []netip.Addr, err error) {
	families := map[bool]bool{} // is IPv4 -> the pod's addresses are floating, and have a gateway if true
	for _, address := range got.Floating {
		families[address.Is4()] = false
	}
	for i, subnet := range spec.PodSubnets {
		prefix, err := subnet.Prefix()
		if err != nil {
			return nil, err
		}
		done, floating := families[prefix.Addr().Is4()]
		has := slices.ContainsFunc(got.Addresses, func(a netip.Prefix) bool { return prefix.Contains(a.Addr()) })
		if i >= len(spec.Gateways) || !has && (!floating || done) {
			continue
		}
		gateway, err := spec.Gateways[i].Addr()
		if err != nil {
			return nil, err
		}
		gateways = append(gateways, gateway)
		if floating {
			families[prefix.Addr().Is4()] = true
		}
	}
	return gateways, nil
}
