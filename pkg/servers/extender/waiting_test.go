package extender

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
	"github.com/weft-network/weft/pkg/addresses/floating/claim"
)

// Each pod that can have an address is woken, also when more addresses become free at once than pods are woken at once.
func TestManyAddressesAtOnce(t *testing.T) {
	const pods = 3*wokenAtOnce + 1
	ctx := t.Context()
	woken := make(chan floating.Requester, pods+1)
	e := &Extender{Floating: claim.New(nil, nil, time.Now)}
	requesters := map[types.UID]floating.Requester{}
	e.Wake = func(_ context.Context, _ types.NamespacedName, uid types.UID, _ string) error {
		woken <- requesters[uid]
		return nil
	}
	e.nodes.set("n1", labels.Set{})
	for i := range pods + 5 {
		a := floating.Requester{Namespace: "demo", Name: fmt.Sprint("p", i), UID: types.UID(fmt.Sprint("uid-", i)),
			Request: networkv1alpha1.FloatingRequest{Pool: "web", Count: 1, Policy: networkv1alpha1.ReleaseWithPod}}
		a.Workload = floating.Workload{APIVersion: "v1", Kind: "Pod", Namespace: a.Namespace, Name: a.Name}
		requesters[a.UID] = a
		e.waiting.add(a)
	}
	go e.runWaiting(ctx)
	first := netip.MustParseAddr("192.0.2.0")
	last := first
	for range pods - 1 {
		last = last.Next()
	}
	pool := floating.Pool{Name: "web", Namespaces: labels.Everything(), Segments: []floating.Segment{{
		AddressRange: networkv1alpha1.AddressRange{First: first, Last: last}, Nodes: labels.Everything()}}}
	e.Floating.Book.SetPool(pool, "")
	e.waiting.publish("web")
	for n, timeout := 1, time.After(time.Minute); n <= pods; n++ {
		select {
		case a := <-woken: // kube-scheduler binds it
			choices, err := e.Floating.Book.Choose(a, floating.Node{Name: "n1"})
			if err != nil {
				t.Fatalf("pod %s was woken for nothing: %v", a.Name, err)
			}
			f := floating.Claimed(choices[0], a, "n1", metav1.Now())
			f.ResourceVersion = fmt.Sprint(n)
			e.observe(nil, f)
		case <-timeout:
			t.Fatalf("%d pods of %d were woken", n-1, pods)
		}
	}
}
