package egressip

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/lbpool"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/health"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// Services reconciles Services whose addresses are the source of their pods outside. The node that answers for an address carries it.
type Services struct {
	Zone     kind.Zone
	Client   client.Client
	Database Database
	Events   events.EventRecorder
}

// Reconcile implements reconcile.Reconciler.
func (r *Services) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	want := unit.Unit{Key: topology.EgressIPKey(facts.EgressNameOf(req.Namespace, req.Name))}
	var s corev1.Service
	if err := r.Client.Get(ctx, req.NamespacedName, &s); apierrors.IsNotFound(err) {
		return ctrl.Result{}, ovndb.IgnorePending(r.Database.Apply(ctx, want))
	} else if err != nil {
		return ctrl.Result{}, err
	}
	ready := metav1.Condition{Type: networkv1alpha1.ServiceEgressSource, Status: metav1.ConditionFalse,
		Reason: networkv1alpha1.ReasonNotRequested, ObservedGeneration: s.Generation}
	granted, invalid := facts.EgressSource(&s)
	switch {
	case invalid != nil:
		ready.Reason, ready.Message = networkv1alpha1.ReasonInvalidAnnotation, invalid.Error()
	case granted:
		read, shared, missing, err := r.read(ctx, &s)
		if err != nil {
			return ctrl.Result{}, err
		}
		want, ready.Status, ready.Reason = topology.EgressIPUnit(read), metav1.ConditionTrue, networkv1alpha1.ReasonAsExpected
		if missing != nil {
			ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, networkv1alpha1.ReasonNotAnswered,
				strings.ReplaceAll(missing.Error(), "\n", "; ")
		}
		if shared {
			ready.Reason = networkv1alpha1.ReasonAddressShared
		}
	}
	applied := r.Database.Apply(ctx, want)
	if refused := (*ovndb.RejectedError)(nil); errors.As(applied, &refused) {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, networkv1alpha1.ReasonDatabaseRefused, refused.Err.Error()
	}
	return ctrl.Result{}, errors.Join(ovndb.IgnorePending(applied), r.report(ctx, &s, ready))
}

// read reads the facts of a Service. missing names the addresses with which no packet leaves, and why. shared means that one of them is an
// address of a Service of another namespace.
func (r *Services) read(ctx context.Context, s *corev1.Service) (read facts.EgressIP, shared bool, missing, err error) {
	var pools networkv1alpha1.LoadBalancerPoolList
	var all corev1.ServiceList // also Services of other proxies, which no index has
	if err := errors.Join(r.Client.List(ctx, &pools),
		r.Client.List(ctx, &all)); err != nil {
		return read, false, nil, err
	}
	refused := lbpool.ForeignShares(s, all.Items)
	announced, gateways := map[netip.Addr]string{}, map[string]facts.Gateway{}
	for i := range pools.Items {
		for _, a := range pools.Items[i].Status.Announcements {
			if address, err := a.Address.Addr(); err == nil {
				announced[address] = a.Node
			}
		}
	}
	for _, ingress := range s.Status.LoadBalancer.Ingress {
		address, err := netip.ParseAddr(ingress.IP)
		if err != nil || announced[address] == "" {
			continue
		}
		if err := r.addGateway(ctx, announced[address], gateways); err != nil {
			return read, false, nil, err
		}
	}
	read, missing = facts.ParseEgressService(s, refused, announced, gateways)
	shared = slices.ContainsFunc(lbpool.AddressesOf(s), func(a netip.Addr) bool { return refused[a] != "" })
	return read, shared, missing, nil
}

// addGateway adds the gateway of a node, if it can be read. Its own controller reports why not.
func (r *Services) addGateway(ctx context.Context, name string, to map[string]facts.Gateway) error {
	var node corev1.Node
	var nn networkv1alpha1.NodeNetwork
	key := types.NamespacedName{Name: name}
	if err := errors.Join(r.Client.Get(ctx, key, &node),
		r.Client.Get(ctx, key, &nn)); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	gateway, err := facts.ParseGateway(&nn, &node)
	if err != nil {
		return nil
	}
	if r.Zone.Elsewhere(&nn) {
		var cn networkv1alpha1.ClusterNetwork
		if err := r.Client.Get(ctx, types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, &cn); err != nil {
			return client.IgnoreNotFound(err)
		}
		if plan, err := facts.ParseInUse(&cn); err == nil {
			transit, _ := plan.Transit(&cn, networkv1alpha1.ZoneName(r.Zone))
			gateway.ReachBy(transit, &nn)
		}
	}
	to[name] = gateway
	return nil
}

// report writes the condition if it differs. A service that never requested its addresses as a source has none.
func (r *Services) report(ctx context.Context, s *corev1.Service, want metav1.Condition) error {
	want.Message = health.Cut(want.Message)
	have := meta.FindStatusCondition(s.Status.Conditions, want.Type)
	if have == nil && want.Reason == networkv1alpha1.ReasonNotRequested || have != nil && have.Status == want.Status &&
		have.Reason == want.Reason && have.Message == want.Message {
		return nil
	}
	if want.Status == metav1.ConditionFalse && want.Reason != networkv1alpha1.ReasonNotRequested {
		r.Events.Eventf(s, nil, corev1.EventTypeWarning, want.Reason, "Leave", "%s", want.Message)
	}
	patched := s.DeepCopy()
	meta.SetStatusCondition(&patched.Status.Conditions, want)
	return client.IgnoreNotFound(kind.WriteStatus(ctx, r.Client, s, patched))
}

func (r *Services) kind() *kind.Kind {
	return &kind.Kind{
		Name: topology.KindEgressService, Reconciler: r,
		Owner:        func() client.Object { return &corev1.Service{} },
		First:        func() client.ObjectList { return &corev1.ServiceList{} }, // addresses in sets of nodes in Local mode
		FirstOptions: []client.ListOption{client.MatchingFields{kind.ServicesLeaving: "true"}},
		Indexes:      []kind.Index{{Object: &corev1.Service{}, Field: kind.ServicesLeaving, Values: kind.IndexByEgressSource}},
		Watches: []kind.Watch{
			kind.Of(&corev1.Service{}, predicate.Or(kind.EgressSourceChanged(), conditionChanged())),
			kind.Map(&corev1.Service{}, r.sharing, sharedChanged()),
			kind.Map(&networkv1alpha1.LoadBalancerPool{}, r.all, trigger.Changed(announcementsChanged)),
			kind.Map(&networkv1alpha1.NodeNetwork{}, r.all, trigger.Changed(networkChanged)),
		},
	}
}

// conditionChanged passes events of Services whose condition may have to be written again: a former leader may have left it.
func conditionChanged() predicate.Funcs {
	find := func(o client.Object) string {
		if s, ok := o.(*corev1.Service); ok {
			if c := meta.FindStatusCondition(s.Status.Conditions, networkv1alpha1.ServiceEgressSource); c != nil {
				return fmt.Sprint(c.Status, c.Reason, c.Message)
			}
		}
		return ""
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return find(e.Object) != "" },
		UpdateFunc: func(e event.UpdateEvent) bool { return find(e.ObjectOld) != find(e.ObjectNew) },
		DeleteFunc: func(e event.DeleteEvent) bool { return find(e.Object) != "" },
	}
}

// announcementsChanged passes changes of which node answers for which address.
func announcementsChanged(before, after *networkv1alpha1.LoadBalancerPool) bool {
	return !slices.Equal(before.Status.Announcements, after.Status.Announcements)
}

// sharedChanged passes events of Services that change with which addresses Services of other namespaces leave.
func sharedChanged() predicate.Funcs {
	has := func(o client.Object) bool {
		s, ok := o.(*corev1.Service)
		return !ok || len(lbpool.AddressesOf(s)) > 0
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return has(e.Object) },
		DeleteFunc: func(e event.DeleteEvent) bool { return has(e.Object) },
		UpdateFunc: trigger.Update(func(before, after *corev1.Service) bool {
			const allowed = networkv1alpha1.SharedIPNamespacesAnnotation
			return !slices.Equal(lbpool.AddressesOf(before), lbpool.AddressesOf(after)) ||
				before.Annotations[allowed] != after.Annotations[allowed]
		}),
	}
}

// sharing returns a request for each Service that leaves with an address of another one.
func (r *Services) sharing(ctx context.Context, o client.Object) []reconcile.Request {
	s, ok := o.(*corev1.Service)
	if !ok {
		return nil
	}
	addresses := lbpool.AddressesOf(s)
	return r.matching(ctx, func(other *corev1.Service) bool {
		return slices.ContainsFunc(lbpool.AddressesOf(other), func(a netip.Addr) bool { return slices.Contains(addresses, a) })
	})
}

// all returns a request for each Service that requests its addresses as a source.
func (r *Services) all(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.matching(ctx, func(*corev1.Service) bool { return true })
}

// matching returns a request for each of these Services that which selects.
func (r *Services) matching(ctx context.Context, which func(*corev1.Service) bool) []reconcile.Request {
	return kind.RequestsIf(ctx, r.Client, &corev1.ServiceList{}, which, client.MatchingFields{kind.ServicesLeaving: "true"})
}
