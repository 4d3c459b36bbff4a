// Package controllers lists the operator's reconcilers and connects them with the engine.
//
//	Kubernetes caches ──read──▶ facts ──pure──▶ unit.Unit ──diff──▶ ovndb.Plan ──1 txn──▶ OVN NB ──▶ status
//	  (controllers/*)         (structs)      (pkg/topology)         (pkg/ovndb)                 (controllers/*)
package controllers

import (
	"context"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/weft-network/weft/controllers/network"
	"github.com/weft-network/weft/controllers/node"
	"github.com/weft-network/weft/controllers/pod"
	"github.com/weft-network/weft/controllers/sweep"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/northbound"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/trigger"
	"github.com/weft-network/weft/pkg/unit"
)

// countDelay is how long counts in ClusterNetwork's status may be behind: many pods become one write.
const countDelay = 2 * time.Second

// Options are what the reconcilers need besides the manager.
type Options struct {
	// Northbound are the OVSDB remotes of the northbound database.
	Northbound []string
	Observer   ovndb.Observer
}

// Setup makes the engine and registers every reconciler with the manager.
func Setup(mgr ctrl.Manager, options Options) (*ovndb.Engine, error) {
	triggers := map[string]*trigger.Trigger{topology.KindNetwork: {}, topology.KindNode: {}, topology.KindPod: {}}
	swept := &trigger.Trigger{}
	engine := ovndb.NewEngine(ovndb.Config{
		Schema: northbound.Schema(), Endpoints: options.Northbound, Observer: options.Observer, Log: ctrl.Log.WithName("ovndb"),
		OnConnect: func(up bool) {
			triggers[topology.KindNetwork].Enqueue(network.Name)
			if up {
				swept.Enqueue(network.Name)
			}
		},
	}, func(key unit.Key, _ error) {
		if t := triggers[key.Kind()]; t != nil {
			t.Enqueue(requestOf(key))
		}
	})
	db := &database{engine}
	addresses := alloc.New(time.Now)
	recorder := mgr.GetEventRecorder("weft")

	for _, r := range []interface{ SetupWithManager(ctrl.Manager) error }{
		&network.Reconciler{Client: mgr.GetClient(), Database: db, Addresses: addresses, Trigger: triggers[topology.KindNetwork]},
		&node.Reconciler{Client: mgr.GetClient(), Database: db, Addresses: addresses, Events: recorder, Trigger: triggers[topology.KindNode]},
		&pod.Reconciler{Client: mgr.GetClient(), Database: db, Addresses: addresses, Events: recorder, Trigger: triggers[topology.KindPod],
			Counted: func() { triggers[topology.KindNetwork].EnqueueAfter(network.Name, countDelay) }},
		&sweep.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Database: db, Events: recorder, Trigger: swept, Kinds: triggers},
	} {
		if err := r.SetupWithManager(mgr); err != nil {
			return nil, err
		}
	}
	return engine, mgr.Add(&leaderRunnable{engine.Run})
}

// requestOf is the reverse of the keys that pkg/topology makes.
func requestOf(key unit.Key) types.NamespacedName {
	if namespace, name, ok := strings.Cut(key.Name(), "/"); ok {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	return types.NamespacedName{Name: key.Name()}
}

// leaderRunnable runs only in the process that holds the lease.
type leaderRunnable struct{ run func(context.Context) error }

var _ manager.LeaderElectionRunnable = &leaderRunnable{}

// Start implements manager.Runnable.
func (l *leaderRunnable) Start(ctx context.Context) error { return l.run(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (l *leaderRunnable) NeedLeaderElection() bool { return true }
