package egressfirewall

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// wildcardSets is the value of the index BySet of firewalls that name a DNS name with a wildcard.
const wildcardSets = topology.KindDNS + "/*"

// wildcards records which names with wildcards are in use.
type wildcards struct {
	mu    sync.Mutex
	names map[string]struct{} // nil until they were read from the cache
}

// Wildcards lists the names with wildcards that firewalls and policies name, sorted.
func (r *DNS) Wildcards(ctx context.Context) ([]string, error) {
	if err := r.Load(ctx); err != nil {
		return nil, err
	}
	r.wildcards.mu.Lock()
	defer r.wildcards.mu.Unlock()
	if err := r.readWildcards(ctx); err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(r.wildcards.names)), nil
}

// readWildcards reads the names that are in use when the process starts. r.wildcards is locked.
func (r *DNS) readWildcards(ctx context.Context) error {
	if r.wildcards.names != nil {
		return nil
	}
	firewalls, err := users(ctx, r.Client, wildcardSets)
	if err != nil {
		return err
	}
	sets := r.Policies.Sets()
	for i := range firewalls {
		sets = append(sets, SetsOf(&firewalls[i])...)
	}
	r.wildcards.names = map[string]struct{}{}
	for _, set := range sets {
		if isWildcard(set) {
			r.wildcards.names[set.Name()] = struct{}{}
		}
	}
	return nil
}

func isWildcard(set unit.Key) bool {
	return set.Kind() == topology.KindDNS && facts.IsWildcard(set.Name())
}

// note records whether a name with a wildcard is in use.
func (r *DNS) note(ctx context.Context, name string, used bool) error {
	r.wildcards.mu.Lock()
	if err := r.readWildcards(ctx); err != nil {
		r.wildcards.mu.Unlock()
		return err
	}
	_, was := r.wildcards.names[name]
	if used {
		r.wildcards.names[name] = struct{}{}
	} else {
		delete(r.wildcards.names, name)
	}
	r.wildcards.mu.Unlock()
	if was != used {
		r.WildcardsChanged.Publish(struct{}{})
	}
	return nil
}

// observe writes the addresses that nodes report for a name with a wildcard.
func (r *DNS) observe(ctx context.Context, key unit.Key) error {
	var nodes networkv1alpha1.NodeNetworkList
	if err := r.Client.List(ctx, &nodes); err != nil {
		return err
	}
	before, first := r.stateOf(key.Name()), !r.Database.Wanted(key)
	r.Resolver.Observe(key.Name(), facts.ObservedAddresses(key.Name(), nodes.Items), r.unobserved(ctx, key.Name()))
	if err := r.apply(ctx, key); err != nil {
		return err
	}
	if first || r.stateOf(key.Name()) != before {
		return r.enqueueUsers(ctx, key)
	}
	return nil
}

// unobserved returns why nodes cannot observe a name.
func (r *DNS) unobserved(ctx context.Context, name string) error {
	names, err := r.Wildcards(ctx)
	if err != nil {
		return err
	}
	if at := slices.Index(names, name); at >= networkv1alpha1.MaxWildcards {
		return fmt.Errorf("the cluster uses more than %d names with wildcards", networkv1alpha1.MaxWildcards)
	}
	var cn networkv1alpha1.ClusterNetwork
	if err := r.Client.Get(ctx, types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, &cn); client.IgnoreNotFound(err) != nil {
		return err
	}
	servers, err := kind.NameServers(ctx, r.Client, &cn)
	if err == nil && len(servers) == 0 {
		err = errors.New("the cluster's name servers are unknown: there is no Service kube-system/kube-dns; " +
			"set spec.dns.nameservers of the ClusterNetwork")
	}
	return err
}

// allWildcards returns a request for each name with a wildcard.
func (r *DNS) allWildcards(ctx context.Context, _ client.Object) (requests []reconcile.Request) {
	names, err := r.Wildcards(ctx)
	if err != nil {
		return nil // the cache returns no errors once it is in sync
	}
	for _, name := range names {
		requests = append(requests, reconcile.Request{NamespacedName: trigger.NameOf(topology.DNSKey(name))})
	}
	return requests
}

// observed returns requests for the names that a node reports.
func observed(_ context.Context, o client.Object) (requests []reconcile.Request) {
	nn, ok := o.(*networkv1alpha1.NodeNetwork)
	if !ok {
		return nil
	}
	for _, w := range nn.Status.Wildcards {
		requests = append(requests, reconcile.Request{NamespacedName: trigger.NameOf(topology.DNSKey(w.Name))})
	}
	return requests
}

// observationsChanged passes changes of what a node reports.
func observationsChanged(before, after *networkv1alpha1.NodeNetwork) bool {
	return !slices.EqualFunc(before.Status.Wildcards, after.Status.Wildcards,
		func(a, b networkv1alpha1.ObservedWildcard) bool {
			return a.Name == b.Name && slices.Equal(a.Addresses, b.Addresses)
		})
}
