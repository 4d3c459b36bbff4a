package kind

import (
	"context"
	"errors"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// A kind whose cache is not in sync is not read. A kind that is removed before its cache was in sync is forgotten as
// well.
func TestAKindThatIsNotInSync(t *testing.T) {
	served, from := &Served{}, &kindCache{}
	errRead := errors.New("it was read")
	read := func() (bool, error) { return served.Read("things", func() error { return errRead }) }
	if has, err := read(); has || err != nil {
		t.Errorf("before it comes: %v, %v", has, err)
	}
	for _, want := range []bool{true, false} {
		if begun, err := served.Begin(t.Context(), from, "things", nil); begun != want || err != nil {
			t.Errorf("begun is %v, %v, want %v", begun, err, want)
		}
	}
	from.synced = true
	if has, err := read(); !has || !errors.Is(err, errRead) {
		t.Errorf("in sync: %v, %v", has, err)
	}
	from.synced = false
	if has, err := read(); !has || !errors.Is(err, ErrNotInSync) {
		t.Errorf("not in sync: %v, %v", has, err)
	}
	if err := served.End(t.Context(), from, "things", nil); err != nil || !from.removed || served.Has("things") {
		t.Errorf("after its end: %v, removed is %v", err, from.removed)
	}
}
