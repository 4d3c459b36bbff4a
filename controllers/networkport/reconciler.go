package networkport

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	ipamclaimsv1alpha1 "github.com/k8snetworkplumbingwg/ipamclaims/pkg/crd/ipamclaims/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/floating/claim"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/health"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/podcondition"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// Database is what the reconciler needs of the engine.
type Database interface {
	Apply(ctx context.Context, u unit.Unit) error
	// Ports lists the ports that exist; it is read once, before the first address is given.
	Ports(ctx context.Context) ([]*nbdb.LogicalSwitchPort, error)
	// RowsOf returns the rows of a unit, from the database if this process has not applied the unit. known is false while the
	// database is away; on its return, the sweep enqueues the owner.
	RowsOf(key unit.Key) (rows []unit.Row, known bool)
}

// Selectors records which groups and sets of pods are in use.
type Selectors interface {
	// Load reads all policies once. It must return before the first pod is reconciled.
	Load(ctx context.Context) error
	// Started records that the reconciliation of a pod's unit begins. Of lists the units of the selectors that select a pod's
	// port on a Network.
	Started(pod unit.Key)
	Of(pod facts.SelectedPod) []unit.Key
	// Reconciled records that the reconciliation has ended.
	Reconciled(pod unit.Key)
}

// Reconciler reconciles the ports of pods on Networks.
type Reconciler struct {
	Client   client.Client
	Database Database
	Events   events.EventRecorder
	Triggers *trigger.Set
	// Addresses has the addresses in use of each Network.
	Addresses *alloc.Set
	Selectors Selectors
	// Floating gives addresses of IPPools.
	Floating *claim.Claimer
	Zone     kind.Zone
	// Detached publishes that pods have lost attachments, or that all are known now.
	Detached *kind.Topic[struct{}]
	// CountDelay is how long a Network's count of attachments may be behind.
	CountDelay time.Duration

	restored *restoration
	holders  holders
	claims   claims
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if err := errors.Join(r.restore(ctx), r.Selectors.Load(ctx)); err != nil {
		return ctrl.Result{}, err
	}
	key := topology.PodPortsKey(req.Namespace, req.Name)
	r.Selectors.Started(key)
	defer r.Selectors.Reconciled(key)
	var pod corev1.Pod
	err := r.Client.Get(ctx, req.NamespacedName, &pod)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	if err != nil || !facts.WantsPort(&pod) || !requestsNetworks(&pod) {
		r.holders.waiters.Leave(req.NamespacedName)
		return ctrl.Result{}, errors.Join(r.keep(ctx, req.NamespacedName, nil), r.report(ctx, &pod, "", nil))
	}
	var nn networkv1alpha1.NodeNetwork
	err = r.Client.Get(ctx, types.NamespacedName{Name: pod.Spec.NodeName}, &nn)
	switch {
	case apierrors.IsNotFound(err): // the node's part of a Layer3 Network went with it, and another node may be given its addresses
		return ctrl.Result{}, r.keep(ctx, req.NamespacedName, nil)
	case err != nil:
		return ctrl.Result{}, err
	case r.Zone.Elsewhere(&nn): // its chassis does not have the Network's switch
		return ctrl.Result{}, errors.Join(r.keep(ctx, req.NamespacedName, nil), r.report(ctx, &pod, networkv1alpha1.ReasonInvalidRequest,
			[]string{fmt.Sprintf("zone %s of node %s attaches no secondary networks", nn.Spec.Zone, nn.Name)}))
	case nn.Status.Chassis == "":
		_, err := r.stay(ctx, &pod)
		return ctrl.Result{}, err // the agent's report enqueues the pod
	}
	wanted, err := networks.Parse(pod.Annotations, pod.Namespace)
	if err != nil { // what the pod has stays
		_, kept := r.stay(ctx, &pod)
		return ctrl.Result{}, errors.Join(kept, r.report(ctx, &pod, networkv1alpha1.ReasonInvalidRequest, []string{err.Error()}))
	}
	return ctrl.Result{}, r.ensure(ctx, &pod, &nn, wanted)
}

// ensure gives the pod a port for each request that can be granted. nn is its node's.
func (r *Reconciler) ensure(ctx context.Context, pod *corev1.Pod, nn *networkv1alpha1.NodeNetwork, wanted []networks.Request) error {
	name := client.ObjectKeyFromObject(pod)
	selected, err := r.selectedBy(ctx, pod)
	if err != nil {
		return err
	}
	var attempts []attempt
	for _, request := range wanted {
		a, err := r.resolve(ctx, pod, nn, request)
		if err != nil {
			return err
		}
		if a != nil && a.failed == nil {
			a.port.Selected = selected(a.port.Network.Name)
		}
		if a != nil {
			a.evades = r.evades(pod, a)
			attempts = append(attempts, *a)
		}
	}
	if i := slices.IndexFunc(attempts, func(a attempt) bool { return a.frozen }); i >= 0 {
		return r.freeze(ctx, pod, attempts, attempts[i])
	}
	// What leaves goes first: an attachment that replaces another may request the same address.
	if err := r.keep(ctx, name, attempts); err != nil {
		return err
	}
	var ports []topology.PodPort
	var lost []held
	var failed []string
	for i := range attempts {
		port, err := r.allocate(name, &attempts[i])
		if err != nil {
			failed = append(failed, fmt.Sprintf("%s: %v", attempts[i].request, err))
			if have := attempts[i].held(); r.holders.has(name, have) { // its port was restored, but not its addresses
				lost = append(lost, have)
			}
			continue
		}
		if claim := attempts[i].claim; claim != nil { // before the port, so that no pod has addresses that nothing keeps
			if recorded, err := r.recordClaim(ctx, claim); err != nil || !recorded {
				r.Triggers.EnqueueAfter(topology.KindPodPorts, name, trigger.FirstRetry)
				return err
			}
		}
		ports = append(ports, port)
		if attempts[i].apart != nil { // it keeps its port and addresses until the node is connected again
			failed = append(failed, fmt.Sprintf("%s: Network %s: %v", attempts[i].request, port.Network.Name, attempts[i].apart))
		}
		if host := attempts[i].foreignOf(port.Addresses); host != nil { // the same
			failed = append(failed, fmt.Sprintf("%s: Network %s: address %s is used already: %s answers for it on the segment, as node %s found",
				attempts[i].request, port.Network.Name, host.address, host.mac, host.seenBy))
		}
	}
	applied := r.Database.Apply(ctx, topology.PodPortsUnit(name.Namespace, name.Name, ports))
	if ovndb.IgnorePending(applied) == nil {
		r.release(name, lost)
	}
	var rejected *ovndb.RejectedError
	if errors.As(applied, &rejected) {
		failed = append(failed, rejected.Err.Error())
	}
	return errors.Join(ovndb.IgnorePending(applied), r.report(ctx, pod, networkv1alpha1.ReasonNotAllocated, failed))
}

// freeze leaves all ports of a pod as they are, because one of them is on a Network that is invalid now. It reports the requests for
// which the pod has no port.
func (r *Reconciler) freeze(ctx context.Context, pod *corev1.Pod, attempts []attempt, cause attempt) error {
	known, err := r.stay(ctx, pod)
	if !known {
		return err
	}
	var failed []string
	for _, a := range attempts {
		if !r.holders.hasPort(client.ObjectKeyFromObject(pod), a.owner) {
			failed = append(failed, fmt.Sprintf("%s: it waits, because the pod is attached to a Network that is invalid: %v",
				a.request, cause.failed))
		}
	}
	return errors.Join(err, r.report(ctx, pod, networkv1alpha1.ReasonNotAllocated, failed))
}

// attempt is one request of a pod on a Network, with what is known of it before an address is given.
type attempt struct {
	request networks.Request
	owner   alloc.Owner
	port    topology.PodPort
	pools   []alloc.Pool
	hosts   []kind.SegmentHost            // on the segment of a Localnet Network, with addresses of its subnets
	macs    []kind.SegmentMAC             // of machines on the segment of a Localnet Network, if the request has a MAC
	foreign []foreignHost                 // on the segment of a Localnet Network
	evades  bool                          // the pod gets other addresses than it was given
	claim   *ipamclaimsv1alpha1.IPAMClaim // that the request names; nil: none
	// floating are the addresses that the pod has of the IPPool pool on this Network.
	pool     string
	floating []netip.Addr
	failed   error // why it cannot be granted
	frozen   bool  // the pod has the attachment, and its Network is invalid now
	apart    error // why the node does not reach the Network's physical network; a port that exists stays
}

// resolve finds the Network of a request. It returns nil for a request that another plugin serves. An error of the
// request is in the attempt.
func (r *Reconciler) resolve(ctx context.Context, pod *corev1.Pod, nn *networkv1alpha1.NodeNetwork,
	request networks.Request) (*attempt, error) {
	uid := networkv1alpha1.InterfaceUID(pod)
	a := &attempt{request: request, owner: alloc.AttachmentOwner(client.ObjectKeyFromObject(pod), uid, request.Interface, request.Hash())}
	definition, err := r.definition(ctx, request.Definition())
	has, held := r.holders.networkOf(client.ObjectKeyFromObject(pod), a.owner)
	switch {
	case held && (isRefusal(err) || err == nil && definition.Network == ""):
		definition.Network = has // an attachment stays when its definition is deleted, or is another plugin's now
	case isRefusal(err):
		a.failed = err
		return a, nil
	case err != nil:
		return nil, err
	case definition.Network == "":
		return nil, nil
	}
	a.port = topology.PodPort{Namespace: pod.Namespace, Name: pod.Name, UID: uid, Node: pod.Spec.NodeName, Chassis: nn.Status.Chassis,
		Interface: request.Interface, Request: request.Hash(), Gateways: request.DefaultRoute, Bandwidth: bandwidthOf(request)}
	attached := held && has == definition.Network
	if a.port.Network, err = r.network(ctx, definition.Network, pod.Namespace, attached); isRefusal(err) {
		var invalid invalidNetwork
		a.failed, a.frozen = err, attached && errors.As(err, &invalid)
		return a, nil
	} else if err != nil {
		return nil, err
	}
	a.apart = a.port.Network.MissingOn(nn)
	if a.failed = unsupported(request); a.failed == nil && !held {
		a.failed = a.port.Network.LeavingOn(nn)
	}
	if a.failed == nil {
		a.pools, a.failed = a.port.Network.Pools(pod.Spec.NodeName, int(nn.Spec.NodeID))
	}
	if err := errors.Join(r.resolveHosts(ctx, a), r.resolveFloating(ctx, pod, a)); err != nil {
		return nil, err
	}
	return a, r.resolveClaim(ctx, client.ObjectKeyFromObject(pod), a)
}

// keep takes from a pod what it has and no attempt keeps: the port first, so that the address is free only when
// nobody answers for it.
func (r *Reconciler) keep(ctx context.Context, pod types.NamespacedName, attempts []attempt) error {
	var leaving []held
	var staying []topology.PodPort
	for _, have := range r.holders.of(pod) {
		i := slices.IndexFunc(attempts, func(a attempt) bool {
			return a.owner == have.owner && a.port.Network.Name == have.network && a.failed == nil && !a.evades
		})
		if i < 0 {
			leaving = append(leaving, have)
		} else if port, ok := r.assigned(attempts[i]); ok {
			staying = append(staying, port)
		}
	}
	if len(leaving) == 0 && len(attempts) > 0 {
		return nil
	}
	if err := ovndb.IgnorePending(r.Database.Apply(ctx, topology.PodPortsUnit(pod.Namespace, pod.Name, staying))); err != nil {
		return err
	}
	r.release(pod, leaving)
	return nil
}

// release frees what a pod had. Its ports must be gone.
func (r *Reconciler) release(pod types.NamespacedName, leaving []held) {
	for _, have := range leaving {
		r.holders.remove(pod, have)
		addresses := r.Addresses.Of(have.network)
		var of []types.NamespacedName
		if _, _, restored := addresses.Get(have.owner); restored {
			for _, name := range addresses.ReservationsOf(have.owner) {
				of = append(of, claimNamed(name))
			}
		} else { // any claim of the network may say that the pod has it
			of = r.claims.on(have.network, pod.Namespace)
		}
		addresses.Release(have.owner)
		for _, claim := range of {
			r.Triggers.Enqueue(topology.KindIPAMClaim, claim)
		}
		r.wake(kind.Awaited{Network: have.network})
		r.count(have.network)
	}
	if len(leaving) > 0 {
		r.Detached.Publish(struct{}{})
	}
}

// wake enqueues the pods that wait for an address.
func (r *Reconciler) wake(on kind.Awaited) {
	for _, waiting := range r.holders.waiters.Wake(on) {
		r.Triggers.Enqueue(topology.KindPodPorts, waiting)
	}
}

// count enqueues a Network, whose status counts its attachments.
func (r *Reconciler) count(network string) {
	r.Triggers.EnqueueAfter(topology.KindPodNetwork, types.NamespacedName{Name: network}, r.CountDelay)
}

// report writes the condition PodNetworksAllocated, and records an event, if requests cannot be granted or could not
// before.
func (r *Reconciler) report(ctx context.Context, pod *corev1.Pod, reason string, failed []string) error {
	want, ok := podcondition.OfFailures(pod, networkv1alpha1.PodNetworksAllocated, reason, strings.Join(failed, "; "))
	if !ok || pod.Name == "" {
		return nil
	}
	if want.Status == corev1.ConditionFalse {
		r.Events.Eventf(pod, nil, corev1.EventTypeWarning, "FailedNetworkAllocation", "AllocateNetwork", "%s", health.Cut(want.Message))
	}
	patched := pod.DeepCopy()
	podcondition.Set(&patched.Status, want)
	err := kind.WritePodStatus(ctx, r.Client, pod, patched)
	if apierrors.IsConflict(err) {
		r.Triggers.EnqueueAfter(topology.KindPodPorts, client.ObjectKeyFromObject(pod), trigger.FirstRetry)
		return nil
	}
	return client.IgnoreNotFound(err)
}
