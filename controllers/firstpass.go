package controllers

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// firstPass finds out when every pod that existed at the start has been looked at once. Only then is it known what nobody wants.
type firstPass struct {
	done func()

	mu     sync.Mutex
	begun  bool
	looked map[types.NamespacedName]struct{} // before it began
	left   map[types.NamespacedName]struct{}
}

// begin lists the pods; those that were looked at before count.
func (f *firstPass) begin(ctx context.Context, reader client.Reader) error {
	var pods corev1.PodList
	if err := reader.List(ctx, &pods); err != nil {
		return err
	}
	f.mu.Lock()
	f.begun, f.left = true, map[types.NamespacedName]struct{}{}
	for i := range pods.Items {
		name := client.ObjectKeyFromObject(&pods.Items[i])
		if _, ok := f.looked[name]; !ok {
			f.left[name] = struct{}{}
		}
	}
	f.looked = nil
	over := len(f.left) == 0
	f.mu.Unlock()
	if over {
		f.done()
	}
	return nil
}

// look notes that a pod was looked at, whatever came of it.
func (f *firstPass) look(name types.NamespacedName) {
	f.mu.Lock()
	over := false
	if f.begun {
		_, was := f.left[name]
		delete(f.left, name)
		over = was && len(f.left) == 0
	} else {
		if f.looked == nil {
			f.looked = map[types.NamespacedName]struct{}{}
		}
		f.looked[name] = struct{}{}
	}
	f.mu.Unlock()
	if over {
		f.done()
	}
}
