package egressfirewall

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/trigger"
	"github.com/weft-network/weft/pkg/unit"
)

// BySet indexes EgressFirewalls by the keys of the sets that their rules name, and by the kinds of these.
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
	}
	return values
}

// SetsOf lists the sets that a firewall's rules name.
func SetsOf(o client.Object) []unit.Key {
	firewall, ok := o.(*networkv1alpha1.EgressFirewall)
	if !ok {
		return nil
	}
	facts, err := topology.ParseEgressFirewall(firewall, nil)
	if err != nil {
		return nil // it denies everything
	}
	return facts.Sets()
}

// users lists the firewalls that name a set, or one of a kind. They are only looked at.
func users(ctx context.Context, c client.Client, value string) ([]networkv1alpha1.EgressFirewall, error) {
	var list networkv1alpha1.EgressFirewallList
	err := c.List(ctx, &list, client.MatchingFields{BySet: value}, client.UnsafeDisableDeepCopy)
	return list.Items, err
}

// askUsers asks for the firewalls that name a set, after it changed: those too that came to name it meanwhile, and found it as it was before.
func askUsers(ctx context.Context, c client.Client, set unit.Key, t *trigger.Trigger) error {
	firewalls, err := users(ctx, c, string(set))
	for i := range firewalls {
		t.Enqueue(client.ObjectKeyFromObject(&firewalls[i]))
	}
	return err
}

// requests asks for the sets of one kind among those that a firewall names.
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
