package floatinggate

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// waiting records which gated pods wait for an address of which pool. The zero value is empty.
type waiting struct {
	mu   sync.Mutex
	pods map[types.NamespacedName]string // pod -> its pool
}

func (w *waiting) add(pod types.NamespacedName, pool string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pods == nil {
		w.pods = map[types.NamespacedName]string{}
	}
	w.pods[pod] = pool
}

func (w *waiting) remove(pod types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pods, pod)
}

// of returns the waiting pods that a function accepts.
func (w *waiting) of(accept func(pod types.NamespacedName, pool string) bool) (pods []types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for pod, pool := range w.pods {
		if accept(pod, pool) {
			pods = append(pods, pod)
		}
	}
	return pods
}
