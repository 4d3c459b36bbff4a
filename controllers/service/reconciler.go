// Package service reconciles Services. Each service with addresses gets its load balancers, whose backends are the
// endpoints of its EndpointSlices.
package service

import (
	"context"
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/balance"
	"github.com/weft-network/weft/pkg/addresses/lookup"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/health"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// Database is the part of the engine that the reconciler uses.
type Database interface {
	Apply(ctx context.Context, u unit.Unit) error
}

// Reconciler reconciles Services. A service's load balancers depend only on its objects; the stored state is only
// measured.
type Reconciler struct {
	Client   client.Client
	Database Database
	Reserved lookup.Lookup
	Events   events.EventRecorder
	Zone     kind.Zone

	latency latency
}

// Measure passes to observe how long each change of endpoints took from its cause until the database had it.
func (r *Reconciler) Measure(observe func(time.Duration)) *Reconciler {
	r.latency.observe, r.latency.now = observe, time.Now
	return r
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var service corev1.Service
	if err := r.Client.Get(ctx, req.NamespacedName, &service); apierrors.IsNotFound(err) {
		r.latency.forget(req.NamespacedName)
		return ctrl.Result{}, ovndb.IgnorePending(r.Database.Apply(ctx, unit.Unit{Key: topology.ServiceKey(req.Namespace, req.Name)}))
	} else if err != nil {
		return ctrl.Result{}, err
	}
	endpoints, err := r.reader().Endpoints(ctx, &service)
	if err != nil {
		return ctrl.Result{}, err
	}
	nodes, err := r.nodes(ctx, &service, endpoints)
	if err != nil {
		return ctrl.Result{}, err
	}
	parsed, problems := facts.ParseService(&service, endpoints, nodes)
	turn, left := facts.AffinityTurn(&service, time.Now().UnixNano())
	parsed.Turn = turn
	table, err := r.Reserved.ForService(ctx, &service)
	if err != nil {
		return ctrl.Result{}, err
	}
	yielded, conflicts, err := r.reader().Yield(ctx, &service, &parsed) // first, because it names the Service that has a cluster IP
	if err != nil {
		return ctrl.Result{}, err
	}
	refused := append(parsed.Refuse(&service, table), yielded...)
	applied := r.Database.Apply(ctx, topology.ServiceUnit(parsed))
	if applied == nil {
		r.latency.applied(req.NamespacedName, endpoints)
	}
	r.recordEvents(&service, problems, conflicts, applied)
	return ctrl.Result{RequeueAfter: time.Duration(left)},
		errors.Join(ovndb.IgnorePending(applied), r.reportLacks(ctx, &service, lacks{refused, conflicts}))
}

func (r *Reconciler) reader() balance.Reader {
	return balance.Reader{Reader: r.Client, EgressIPs: true}
}

// nodes lists the nodes on which a service's balancers may differ, sorted by name.
func (r *Reconciler) nodes(ctx context.Context, service *corev1.Service, endpoints []discoveryv1.EndpointSlice) (
	[]facts.ServiceNode, error) {
	if !facts.PerNode(service, endpoints) {
		return nil, nil
	}
	var nodes corev1.NodeList
	var networks networkv1alpha1.NodeNetworkList
	if err := errors.Join(r.Client.List(ctx, &nodes),
		r.Client.List(ctx, &networks)); err != nil {
		return nil, err
	}
	return facts.ServiceNodes(service, nodes.Items, r.Zone.Own(networks.Items)), nil
}

// recordEvents records events for the parts of the service that are not in force.
func (r *Reconciler) recordEvents(service *corev1.Service, problems, conflicts []string, applied error) {
	if len(problems) > 0 {
		r.Events.Eventf(service, nil, corev1.EventTypeWarning, "InvalidService", "Balance", "%s", health.Cut(strings.Join(problems, "; ")))
	}
	if len(conflicts) > 0 {
		r.Events.Eventf(service, nil, corev1.EventTypeWarning, "AddressConflict", "Balance", "%s",
			health.Cut(strings.Join(conflicts, "; ")))
	}
	var refused *ovndb.RejectedError
	if errors.As(applied, &refused) {
		r.Events.Eventf(service, nil, corev1.EventTypeWarning, "FailedLoadBalancer", "Balance", "%v", applied)
	}
}
