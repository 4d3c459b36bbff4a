package cli

import (
	"context"
	"errors"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/health"
)

// watched is a list that a status depends on.
type watched struct {
	list    client.ObjectList
	options []client.ListOption
}

// watchedLists returns the lists that a status depends on, apart from pods, which their workloads count.
func watchedLists(namespace string) []watched {
	in := client.InNamespace(namespace)
	all := []watched{
		{list: &networkv1alpha1.ClusterNetworkList{}},
		{&appsv1.DeploymentList{}, []client.ListOption{in}}, {&appsv1.DaemonSetList{}, []client.ListOption{in}},
		{&appsv1.StatefulSetList{}, []client.ListOption{in}},
		{&coordinationv1.LeaseList{}, []client.ListOption{in, client.MatchingFields{"metadata.name": leaseName}}},
	}
	for _, k := range health.Kinds() {
		if list, ok := k.List.(client.ObjectList); ok {
			all = append(all, watched{list: list})
		}
	}
	return all
}

// await returns when the network is healthy or the time is over. The ClusterNetwork may be created meanwhile.
func (s *statusCommand) await(ctx context.Context, api client.WithWatch) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	var watches sync.WaitGroup
	defer watches.Wait()
	defer cancel()
	changed, failed := make(chan struct{}, 1), make(chan error, 1)
	for _, w := range watchedLists(s.cluster.namespace) {
		watches.Go(func() {
			if err := w.follow(ctx, api, changed); err != nil {
				select {
				case failed <- err:
				default: // one error suffices
				}
			}
		})
	}
	for {
		report, err := judge(ctx, api, s.cluster.namespace, time.Now(), false)
		switch {
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return nil // the report shows what is missing
		case err != nil && !errors.Is(err, errNoNetwork):
			return err
		case err == nil && report.NetworkHealthy:
			return nil
		}
		select {
		case <-changed:
		case err := <-failed:
			return err
		case <-ctx.Done():
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return ctx.Err()
			}
			return nil
		}
	}
}

// follow reports each change of the list until ctx ends. A watch begins with the existing objects. The API server ends a
// watch from time to time.
func (w watched) follow(ctx context.Context, api client.WithWatch, changed chan<- struct{}) error {
	for ctx.Err() == nil {
		events, err := api.Watch(ctx, w.list, w.options...)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		for range events.ResultChan() {
			select {
			case changed <- struct{}{}:
			default: // the next reading covers it
			}
		}
		events.Stop()
	}
	return nil
}
