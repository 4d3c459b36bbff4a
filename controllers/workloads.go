package controllers

import (
	"context"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/pkg/health"
	"github.com/weft-network/weft/pkg/process/informers"
)

// WorkloadObserver receives the states of Weft's workloads.
type WorkloadObserver interface {
	// Workload receives how many pods a workload lacks.
	Workload(kind, name string, missing int32)
	// NoWorkload receives a workload that was deleted.
	NoWorkload(kind, name string)
}

// observeWorkloads watches Weft's workloads. It has a cache of its own, because the manager's cache has the workloads of all
// namespaces, and only with IPPools.
func observeWorkloads(mgr ctrl.Manager, namespace string, observer WorkloadObserver) func(context.Context) error {
	var mu sync.Mutex // each informer has a goroutine of its own
	operands := false // weft-operands exists
	update := func(o any) {
		mu.Lock()
		defer mu.Unlock()
		w, known := health.WorkloadOf(o)
		if !known {
			return
		}
		observer.Workload(w.Kind, w.Name, w.Missing())
		if operands = operands || w.Object() == health.OperandsWorkload; w.Kept && !operands {
			observer.Workload("Deployment", health.OperandsName, 1)
		}
	}
	events := toolscache.ResourceEventHandlerFuncs{AddFunc: update, UpdateFunc: func(_, o any) { update(o) }, DeleteFunc: func(o any) {
		if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		mu.Lock()
		defer mu.Unlock()
		switch w, known := health.WorkloadOf(o); {
		case !known:
		case w.Object() == health.OperandsWorkload:
			operands = false
			observer.Workload(w.Kind, w.Name, max(1, w.Wanted))
		default:
			observer.NoWorkload(w.Kind, w.Name)
		}
	}}
	return func(ctx context.Context) error {
		own, err := informers.NewCache(mgr.GetConfig(), cache.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
			HTTPClient: mgr.GetHTTPClient(), DefaultNamespaces: map[string]cache.Config{namespace: {}},
			DefaultTransform: cache.TransformStripManagedFields()})
		if err != nil {
			return err
		}
		for _, of := range []client.Object{&appsv1.Deployment{}, &appsv1.DaemonSet{}, &appsv1.StatefulSet{}} {
			informer, err := own.GetInformer(ctx, of, cache.BlockUntilSynced(false))
			if err != nil {
				return err
			}
			if _, err := informer.AddEventHandler(events); err != nil {
				return err
			}
		}
		return own.Start(ctx)
	}
}
