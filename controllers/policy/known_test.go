package policy

import (
	"context"
	"errors"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/pkg/trigger"
)

// kindCache has one informer, which is in sync or not.
type kindCache struct {
	cache.Cache
	cache.Informer
	synced, removed bool
}

func (c *kindCache) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return c, nil
}

func (c *kindCache) RemoveInformer(context.Context, client.Object) error {
	c.removed = true
	return nil
}

func (c *kindCache) HasSynced() bool { return c.synced }

// Nobody reads what is not in sync, and a kind that goes before it ever was is forgotten all the same.
func TestAKindThatIsNotInSync(t *testing.T) {
	kind, known, from := ClusterKinds()[0], &Known{}, &kindCache{}
	errRead := errors.New("it was read")
	read := func() (bool, error) { return known.Read(kind.Name, func() error { return errRead }) }
	if has, err := read(); has || err != nil {
		t.Errorf("before it comes: %v, %v", has, err)
	}
	for _, want := range []bool{true, false} {
		if begun, err := known.begin(t.Context(), from, kind); begun != want || err != nil {
			t.Errorf("begun is %v, %v, want %v", begun, err, want)
		}
	}
	from.synced = true
	if has, err := read(); !has || !errors.Is(err, errRead) {
		t.Errorf("in sync: %v, %v", has, err)
	}
	from.synced = false
	if has, err := read(); !has || !errors.Is(err, errNotInSync) {
		t.Errorf("not in sync: %v, %v", has, err)
	}
	r := &Cluster{Reconciler: &Reconciler{}, Kind: kind, Known: known, Trigger: &trigger.Trigger{}}
	if err := r.end(t.Context(), from); err != nil || !from.removed || known.Has(kind.Name) {
		t.Errorf("after its end: %v, removed is %v", err, from.removed)
	}
}
