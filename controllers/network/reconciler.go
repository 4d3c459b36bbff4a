package network

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/health"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// Database is what the reconcilers need of the engine.
type Database interface {
	Apply(ctx context.Context, u unit.Unit) error
}

// Reconciler reconciles Networks.
type Reconciler struct {
	Client   client.Client
	Database Database
	Events   events.EventRecorder
	// Attached counts the interfaces of pods on a Network by namespace; known is false before the ports that exist were read.
	Attached func(network string) (byNamespace map[string]int, known bool)
	// Addresses has the addresses in use of each Network.
	Addresses *alloc.Set
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var n networkv1alpha1.Network
	err := r.Client.Get(ctx, req.NamespacedName, &n)
	if apierrors.IsNotFound(err) { // its definitions go with it, by their owner reference
		return ctrl.Result{}, ovndb.IgnorePending(r.Database.Apply(ctx, unit.Unit{Key: topology.PodNetworkKey(req.Name)}))
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	read, err := facts.ParseNetwork(&n)
	if err != nil { // what is in the database stays
		return ctrl.Result{}, r.report(ctx, kind.Detach(&n), &n, networkv1alpha1.ReasonInvalidSpec, err.Error())
	}
	applied := r.Database.Apply(ctx, topology.PodNetworkUnit(read))
	var rejected *ovndb.RejectedError
	if errors.As(applied, &rejected) {
		refused := r.report(ctx, kind.Detach(&n), &n, networkv1alpha1.ReasonDatabaseRefused, rejected.Err.Error())
		return ctrl.Result{}, errors.Join(applied, refused)
	}
	if err := ovndb.IgnorePending(applied); err != nil {
		return ctrl.Result{}, err
	}
	before := kind.Detach(&n)
	reason, message, err := r.judge(ctx, read, &n)
	if invalid := (invalidNetwork{}); errors.As(err, &invalid) {
		reason, message, err = networkv1alpha1.ReasonInvalidSpec, invalid.Error(), nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.report(ctx, before, &n, reason, message)
}

// judge makes the Network's definitions, sets the MTU in its status, and returns what its condition Ready says: what is worst first.
func (r *Reconciler) judge(ctx context.Context, read facts.PodNetwork, n *networkv1alpha1.Network) (reason, message string, err error) {
	var cn networkv1alpha1.ClusterNetwork // its arrival enqueues the Network
	err = r.Client.Get(ctx, types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, &cn)
	if client.IgnoreNotFound(err) != nil {
		return "", "", err
	}
	var unknown error
	if err == nil {
		unknown = read.UnknownTo(cn.Spec)
	}
	tooLarge, mtuErr := r.setMTU(ctx, n, cn.Spec.Encapsulation.Encryption)
	foreign, defineErr := r.define(ctx, n)
	contested, contestErr := r.contested(ctx, read)
	unselected, selectErr := r.unselected(ctx, n)
	if err := errors.Join(mtuErr, defineErr, contestErr, selectErr); err != nil {
		return "", "", err
	}
	onlyNode := read.OnlyNode()
	switch {
	case len(foreign) > 0:
		return networkv1alpha1.ReasonDefinitionExists, fmt.Sprintf("these namespaces have a NetworkAttachmentDefinition %s of another author, "+
			"which stays: %s", n.Name, strings.Join(foreign, ", ")), nil
	case unknown != nil:
		return networkv1alpha1.ReasonPhysicalNetworkUnknown, unknown.Error(), nil
	case onlyNode != nil:
		return networkv1alpha1.ReasonInvalidSpec, onlyNode.Error(), nil
	case len(contested) > 0:
		return networkv1alpha1.ReasonAddressConflict, strings.Join(contested, "; "), nil
	case tooLarge != "":
		return networkv1alpha1.ReasonMTUMismatch, tooLarge, nil
	case len(unselected) > 0:
		return networkv1alpha1.ReasonNamespacesInUse, fmt.Sprintf("the network is in the database; spec.namespaces does not select these "+
			"namespaces, whose attached pods keep their interfaces: %s. To detach a pod, delete it, or take the network out of its annotation",
			strings.Join(unselected, ", ")), nil
	}
	return networkv1alpha1.ReasonAsExpected, "the network is in the database", nil
}

// contested names the addresses of attached pods that a machine on the segment of a Localnet Network, an EgressIP or a load
// balancer has, too, and their MACs that a node has. The pods keep them.
func (r *Reconciler) contested(ctx context.Context, n facts.PodNetwork) (contested []string, err error) {
	if n.Topology != networkv1alpha1.TopologyLocalnet {
		return nil, nil
	}
	hosts, err := kind.SegmentHosts(ctx, r.Client)
	if err != nil {
		return nil, err
	}
	translated, err := kind.TranslatedAddresses(ctx, r.Client)
	if err != nil {
		return nil, err
	}
	for _, host := range append(hosts, translated...) {
		if owner := r.Addresses.Of(n.Name).UserOfAddress(host.Address); owner != "" {
			contested = append(contested, fmt.Sprintf("%s has address %s, which belongs to %s: delete the pod",
				owner, host.Address, host.Of))
		}
	}
	macs, err := kind.SegmentMACs(ctx, r.Client)
	if err != nil {
		return nil, err
	}
	for _, machine := range macs {
		// A host that answers a probe may be the pod itself.
		if owner := r.Addresses.Of(n.Name).UserOfMAC(string(machine.MAC)); machine.Node && owner != "" {
			contested = append(contested, fmt.Sprintf("%s has MAC %s, which belongs to %s: delete the pod",
				owner, machine.MAC, machine.Of))
		}
	}
	slices.Sort(contested)
	return slices.Compact(contested), nil
}

// unselected lists the namespaces with attached pods that spec.namespaces does not select, sorted, with their number of interfaces.
func (r *Reconciler) unselected(ctx context.Context, n *networkv1alpha1.Network) (unselected []string, err error) {
	selector, err := metav1.LabelSelectorAsSelector(n.Spec.Namespaces)
	if err != nil {
		return nil, nil // the API server has validated it
	}
	byNamespace, _ := r.Attached(n.Name)
	for namespace, interfaces := range byNamespace {
		in := kind.NewNamespace()
		err := r.Client.Get(ctx, types.NamespacedName{Name: namespace}, in)
		switch {
		case apierrors.IsNotFound(err): // its pods are being deleted
		case err != nil:
			return nil, err
		case !selector.Matches(labels.Set(in.Labels)):
			unselected = append(unselected, fmt.Sprintf("%s (%d)", namespace, interfaces))
		}
	}
	slices.Sort(unselected)
	return unselected, nil
}

// setMTU sets the MTU in effect in the status. tooLarge says which links do not carry the requested one.
func (r *Reconciler) setMTU(ctx context.Context, n *networkv1alpha1.Network, encryption networkv1alpha1.Encryption) (
	tooLarge string, err error) {
	var nodes networkv1alpha1.NodeNetworkList
	if err := r.Client.List(ctx, &nodes); err != nil {
		return "", err
	}
	carried := facts.CarriedMTUsOf(n, encryption, nodes.Items)
	n.Status.MTU = facts.NetworkMTU(n, carried)
	if n.Status.MTU == n.Spec.MTU {
		return "", nil
	}
	return fmt.Sprintf("spec.mtu %d is not in effect, because the links of these nodes carry less: %s; "+
		"pods' interfaces have MTU %d, and the largest that all links carry is %d",
		n.Spec.MTU, health.NameSome(facts.BelowMTU(carried, n.Spec.MTU)), n.Status.MTU, carried[0].MTU), nil
}

// report writes the status of a Network if it differs from before.
func (r *Reconciler) report(ctx context.Context, before, n *networkv1alpha1.Network, reason, message string) error {
	ready := metav1.Condition{Type: networkv1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: reason,
		Message: health.Cut(message), ObservedGeneration: n.Generation}
	if reason != networkv1alpha1.ReasonAsExpected && reason != networkv1alpha1.ReasonNamespacesInUse {
		ready.Status = metav1.ConditionFalse
	}
	meta.SetStatusCondition(&n.Status.Conditions, ready)
	if byNamespace, known := r.Attached(n.Name); known {
		n.Status.Attachments = 0
		for _, interfaces := range byNamespace {
			n.Status.Attachments += int32(interfaces)
		}
	}
	if equality.Semantic.DeepEqual(before.Status, n.Status) {
		return nil
	}
	had := meta.FindStatusCondition(before.Status.Conditions, networkv1alpha1.ConditionReady)
	if reason != networkv1alpha1.ReasonAsExpected && (had == nil || had.Message != ready.Message) {
		r.Events.Eventf(n, nil, corev1.EventTypeWarning, reason, "ReconcileNetwork", "%s", ready.Message)
	}
	return client.IgnoreNotFound(r.Client.Status().Patch(ctx, n, client.MergeFrom(before)))
}
