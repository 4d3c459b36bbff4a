package egressfirewall

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// BySet indexes EgressFirewalls by the keys of the sets that their rules name, and by the kinds of these sets.
const BySet = "spec.sets"

// IndexBySet is the function of the index BySet.
func IndexBySet(o client.Object) (values []string) {
	kinds := map[string]bool{}
	for _, set := range SetsOf(o) {
		if !kinds[set.Kind()] {
			kinds[set.Kind()] = true
			values = append(values, set.Kind())
		}
		values = append(values, string(set))
		if isWildcard(set) {
			values = append(values, wildcardSets)
		}
	}
	return values
}

// SetsOf lists the sets that a firewall's rules name.
func SetsOf(o client.Object) []unit.Key {
	firewall, ok := o.(*networkv1alpha1.EgressFirewall)
	if !ok {
		return nil
	}
	read, err := facts.ParseEgressFirewall(firewall, nil)
	if err != nil {
		return nil // the firewall denies everything
	}
	return topology.EgressFirewallSets(read)
}

// users lists the firewalls that name a set, or a set of a kind. The caller must not change them.
func users(ctx context.Context, c client.Client, value string) ([]networkv1alpha1.EgressFirewall, error) {
	var list networkv1alpha1.EgressFirewallList
	err := c.List(ctx, &list, client.MatchingFields{BySet: value})
	return list.Items, err
}

// enqueueUsers enqueues the firewalls that name a set, after the set changed. It includes firewalls that began to
// name the set meanwhile and read its previous state.
func enqueueUsers(ctx context.Context, c client.Client, set unit.Key, triggers *trigger.Set) error {
	firewalls, err := users(ctx, c, string(set))
	for i := range firewalls {
		triggers.Enqueue(topology.KindEgressFirewall, client.ObjectKeyFromObject(&firewalls[i]))
	}
	return err
}

// requests returns a function that maps a firewall to its sets of one kind.
func requests(kind string) func(context.Context, client.Object) []reconcile.Request {
	return func(_ context.Context, o client.Object) (found []reconcile.Request) {
		for _, set := range SetsOf(o) {
			if set.Kind() == kind {
				found = append(found, reconcile.Request{NamespacedName: trigger.NameOf(set)})
			}
		}
		return found
	}
}
