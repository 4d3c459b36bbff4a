package database

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/process/trigger"
)

// FirstPass reports when every object that existed at start, of the kinds whose units have elements in the rows of
// other units, has been reconciled once. Only then can elements without a wanting unit be recognized.
type FirstPass struct {
	done func()

	mu         sync.Mutex
	begun      bool
	reconciled map[object]struct{} // before Begin
	left       map[object]struct{}
}

type object struct {
	kind string
	name types.NamespacedName
}

// NewFirstPass returns a pass that has not begun. done is called once, at its end.
func NewFirstPass(done func()) *FirstPass { return &FirstPass{done: done} }

// Begin lists the objects of the kinds that take part. Objects that were reconciled before count. The others are enqueued: a controller
// gets no event of an object that is deleted before the controller has started, although the cache had the object.
func (f *FirstPass) Begin(ctx context.Context, reader client.Reader, kinds []*kind.Kind, triggers *trigger.Set) error {
	all, err := objects(ctx, reader, kinds)
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.begun, f.left = true, map[object]struct{}{}
	for _, r := range all {
		if _, ok := f.reconciled[r]; !ok {
			f.left[r] = struct{}{}
		}
	}
	f.reconciled = nil
	left := slices.Collect(maps.Keys(f.left))
	f.mu.Unlock()
	for _, o := range left {
		triggers.Of(o.kind).EnqueueLast(o.name)
	}
	if len(left) == 0 {
		f.done()
	}
	return nil
}

func objects(ctx context.Context, reader client.Reader, kinds []*kind.Kind) (all []object, err error) {
	for _, k := range kinds {
		if k.First == nil {
			continue
		}
		list := k.First()
		if err := reader.List(ctx, list, k.FirstOptions...); err != nil {
			return nil, err
		}
		err := meta.EachListItem(list, func(o runtime.Object) error {
			all = append(all, object{k.Name, client.ObjectKeyFromObject(o.(client.Object))})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Reconciled returns a function that records that an object of a kind was reconciled, whatever the result.
func (f *FirstPass) Reconciled(kind string) func(reconcile.Request) {
	return func(r reconcile.Request) { f.note(object{kind, r.NamespacedName}) }
}

func (f *FirstPass) note(r object) {
	f.mu.Lock()
	over := false
	if f.begun {
		_, was := f.left[r]
		delete(f.left, r)
		over = was && len(f.left) == 0
	} else {
		if f.reconciled == nil {
			f.reconciled = map[object]struct{}{}
		}
		f.reconciled[r] = struct{}{}
	}
	f.mu.Unlock()
	if over {
		f.done()
	}
}
