package extender

import (
	"context"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weft-network/weft/pkg/addresses/floating"
)

const (
	// wokenAtOnce is how many pods try again when an address becomes free, or when a pod got one. It is more than one,
	// because another reason may keep the first from being scheduled.
	wokenAtOnce = 8
	// mostWaiting bounds the memory. A pod beyond waits for another event of the cluster, or for kube-scheduler's
	// own retry after five minutes.
	mostWaiting = 20000
)

// waiting holds the pods that no node fits. kube-scheduler does not watch FloatingIPs, so it would retry these pods only when
// something else changes. The zero value is empty.
type waiting struct {
	mu   sync.Mutex
	pods []floating.Requester // the longest waiting first
	// freed are the pools with an address that became free; signal has an element while there are any.
	freed  map[string]bool
	signal chan struct{}
}

func (w *waiting) add(a floating.Requester) {
	w.mu.Lock()
	defer w.mu.Unlock()
	same := func(o floating.Requester) bool { return o.UID == a.UID }
	if i := slices.IndexFunc(w.pods, same); i >= 0 {
		w.pods[i] = a
	} else if len(w.pods) < mostWaiting {
		w.pods = append(w.pods, a)
	}
}

func (w *waiting) remove(pod types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pods = slices.DeleteFunc(w.pods, func(o floating.Requester) bool { return o.UID == pod })
}

// of returns the pods that wait for a pool.
func (w *waiting) of(pool string) (pods []floating.Requester) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.pods {
		if a.Request.Pool == pool {
			pods = append(pods, a)
		}
	}
	return pods
}

// has reports whether a pod waits for a pool.
func (w *waiting) has(pool string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.pods, func(a floating.Requester) bool { return a.Request.Pool == pool })
}

// channel returns the channel that has an element while pools have freed addresses.
func (w *waiting) channel() chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.signal == nil {
		w.signal = make(chan struct{}, 1)
	}
	return w.signal
}

// publish records that an address of a pool may be available. It does not block.
func (w *waiting) publish(pool string) {
	signal := w.channel()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.freed == nil {
		w.freed = map[string]bool{}
	}
	w.freed[pool] = true
	select {
	case signal <- struct{}{}:
	default:
	}
}

func (w *waiting) take() (pools []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for pool := range w.freed {
		pools = append(pools, pool)
	}
	w.freed = nil
	return pools
}

// runWaiting wakes waiting pods until ctx ends.
func (e *Extender) runWaiting(ctx context.Context) {
	signal := e.waiting.channel()
	for {
		select {
		case <-ctx.Done():
			return
		case <-signal:
			for _, pool := range e.waiting.take() {
				e.wake(ctx, pool)
			}
		}
	}
}

// wake wakes the pods that wait longest for a pool and can have an address now.
func (e *Extender) wake(ctx context.Context, pool string) {
	classes := e.Floating.Book.Classes(pool, e.nodes.all)
	woken := 0
	for _, requester := range e.waiting.of(pool) {
		answers := e.Floating.Book.Survey(requester, classes)
		if !slices.ContainsFunc(answers, func(a floating.Answer) bool { return a.Err == nil }) {
			continue
		}
		name := types.NamespacedName{Namespace: requester.Namespace, Name: requester.Name}
		err := e.Wake(ctx, name, requester.UID, pool)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && ctx.Err() == nil {
			e.Log.Error(err, "cannot wake a pod that waits for an address; kube-scheduler tries it again within five minutes", "pod", name)
		}
		e.waiting.remove(requester.UID)
		if err == nil {
			woken++
		}
		if woken == wokenAtOnce {
			return
		}
	}
}
