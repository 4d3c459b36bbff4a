package controllers

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/pkg/topology"
)

// firstPass finds out when every object that existed at the start, of the kinds that put something into others' rows, has been looked at once.
// Only then is it known what nobody wants.
type firstPass struct {
	done func()

	mu     sync.Mutex
	begun  bool
	looked map[request]struct{} // before it began
	left   map[request]struct{}
}

// begin lists the objects; those that were looked at before count.
func (f *firstPass) begin(ctx context.Context, reader client.Reader) error {
	all, err := f.objects(ctx, reader)
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.begun, f.left = true, map[request]struct{}{}
	for _, r := range all {
		if _, ok := f.looked[r]; !ok {
			f.left[r] = struct{}{}
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

func (f *firstPass) objects(ctx context.Context, reader client.Reader) (all []request, err error) {
	var pods corev1.PodList
	var nodes corev1.NodeList
	var services corev1.ServiceList
	for _, list := range []client.ObjectList{&pods, &nodes, &services} {
		if err := reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
	}
	for i := range pods.Items {
		all = append(all, request{topology.KindPod, client.ObjectKeyFromObject(&pods.Items[i])})
	}
	for i := range nodes.Items {
		all = append(all, request{topology.KindNode, client.ObjectKeyFromObject(&nodes.Items[i])}, request{topology.KindGateway, client.ObjectKeyFromObject(&nodes.Items[i])})
	}
	for i := range services.Items {
		all = append(all, request{topology.KindService, client.ObjectKeyFromObject(&services.Items[i])})
	}
	return all, nil
}

// look returns what notes that an object of a kind was looked at, whatever came of it.
func (f *firstPass) look(kind string) func(types.NamespacedName) {
	return func(name types.NamespacedName) { f.note(request{kind, name}) }
}

func (f *firstPass) note(r request) {
	f.mu.Lock()
	over := false
	if f.begun {
		_, was := f.left[r]
		delete(f.left, r)
		over = was && len(f.left) == 0
	} else {
		if f.looked == nil {
			f.looked = map[request]struct{}{}
		}
		f.looked[r] = struct{}{}
	}
	f.mu.Unlock()
	if over {
		f.done()
	}
}
