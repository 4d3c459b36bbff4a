package controllers

import (
	"context"
	"errors"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/process/trigger"
	"github.com/weft-network/weft/pkg/selection"
	"github.com/weft-network/weft/pkg/topology"
)

// unreachable is a database that cannot be read.
type unreachable struct{ kind.Database }

func (unreachable) Ports(context.Context) ([]*nbdb.LogicalSwitchPort, error) {
	return nil, errors.New("unreachable")
}

// emptyEnv is an Env of a cluster without objects.
func emptyEnv(t *testing.T) *kind.Env {
	t.Helper()
	options, err := ManagerOptions()
	if err != nil {
		t.Fatal(err)
	}
	env := &kind.Env{Client: fake.NewClientBuilder().WithScheme(options.Scheme).Build(), Database: unreachable{},
		Triggers: &trigger.Set{}, Served: &kind.Served{}}
	env.Selectors = selection.NewSelectors(env.Triggers)
	return env
}

// Every kind can be registered, swept and planned from the exports of its package.
func TestKindsAreComplete(t *testing.T) {
	env := emptyEnv(t)
	kinds := kindsOf(env)
	names := map[string]bool{}
	for _, k := range kinds {
		if k.Name == "" || names[k.Name] {
			t.Errorf("the name %q is empty or another kind's", k.Name)
		}
		names[k.Name] = true
		if k.Reconciler == nil {
			t.Errorf("%s has no reconciler", k.Name)
		}
		if k.Owner == nil && !k.Shared && !k.SkipInPlan && k.Name != topology.KindNetwork && k.Name != topology.KindTransit {
			t.Errorf("the units of %s have no owner: the sweep would keep them for ever", k.Name)
		}
		for i, w := range k.Watches {
			if w.Object == nil || w.Handler == nil {
				t.Errorf("watch %d of %s has no object or no handler", i, k.Name)
			}
		}
	}
	if env.Restore == nil || env.RestoreNetworks == nil || env.HasNoNetwork == nil {
		t.Error("a function that a package sets in Env is missing")
	}
}

// A plan has reconcilers of its own, none of the operator's.
func TestAPlanHasReconcilersOfItsOwn(t *testing.T) {
	env := emptyEnv(t)
	kinds := kindsOf(env)
	fork := env.Fork(env.Client, nil, nil, kinds)
	if env.IsPlan() || !fork.IsPlan() {
		t.Errorf("the operator's Env is a plan's: %t; the fork is: %t", env.IsPlan(), fork.IsPlan())
	}
	live := map[string]reconcile.Reconciler{}
	for _, k := range kinds {
		live[k.Name] = k.Reconciler
	}
	for _, k := range kindsOf(fork) {
		if !k.SkipInPlan && k.Reconciler == live[k.Name] {
			t.Errorf("the plan reconciles with the operator's own reconciler of %s", k.Name)
		}
	}
	fork.Triggers.Enqueue(topology.KindPod, theNetwork)
	if enqueued := env.Triggers.Of(topology.KindPod).Take(); len(enqueued) > 0 {
		t.Errorf("a plan enqueued %v in the operator", enqueued)
	}
}
