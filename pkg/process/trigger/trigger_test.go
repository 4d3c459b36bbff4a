package trigger

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weft-network/weft/pkg/unit"
)

func TestRequestsBeforeTheStartAreKept(t *testing.T) {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	var trigger Trigger
	early, late := types.NamespacedName{Name: "early"}, types.NamespacedName{Name: "late"}
	trigger.Enqueue(early)
	if err := trigger.Start(context.Background(), queue); err != nil {
		t.Fatal(err)
	}
	trigger.Enqueue(late)
	trigger.Enqueue(late) // is the same request
	for _, want := range []types.NamespacedName{early, late} {
		got, _ := queue.Get()
		if got.NamespacedName != want {
			t.Errorf("got %s, want %s", got, want)
		}
		queue.Done(got)
	}
	if queue.Len() != 0 {
		t.Errorf("%d more requests", queue.Len())
	}
}

// A request that may wait comes after the others, also if both are from before the start.
func TestLastRequestsBeforeTheStart(t *testing.T) {
	queue := priorityqueue.New[reconcile.Request]("test")
	defer queue.ShutDown()
	var trigger Trigger
	for _, name := range []string{"old", "both"} {
		trigger.EnqueueLast(types.NamespacedName{Name: name})
	}
	trigger.Enqueue(types.NamespacedName{Name: "both"})
	if err := trigger.Start(context.Background(), queue); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"both", "old"} {
		got, _ := queue.Get()
		if got.Name != want {
			t.Errorf("got %s, want %s", got.Name, want)
		}
		queue.Done(got)
	}
}

// Requests to a controller that this process does not have are not kept.
func TestIgnoredRequests(t *testing.T) {
	var set Set
	set.Enqueue("pod", types.NamespacedName{Name: "before"})
	set.Of("pod").Ignore()
	set.Enqueue("pod", types.NamespacedName{Name: "after"})
	if kept := set.Of("pod").Take(); len(kept) > 0 {
		t.Errorf("kept %v", kept)
	}
}

func TestNameOf(t *testing.T) {
	for key, want := range map[unit.Key]types.NamespacedName{
		"pod/demo/web-0":  {Namespace: "demo", Name: "web-0"},
		"node/worker-1":   {Name: "worker-1"},
		"network/default": {Name: "default"},
	} {
		if got := NameOf(key); got != want {
			t.Errorf("NameOf(%s) = %s, want %s", key, got, want)
		}
	}
}

func TestTakeForgetsWhatItReturns(t *testing.T) {
	var trigger Trigger
	trigger.Enqueue(types.NamespacedName{Name: "a"})
	trigger.EnqueueAfter(types.NamespacedName{Name: "b"}, time.Hour)
	if got := trigger.Take(); len(got) != 2 || got[0].Name != "a" || got[1].Name != "b" {
		t.Errorf("took %v, want a and b", got)
	}
	if got := trigger.Take(); len(got) != 0 {
		t.Errorf("took %v a second time", got)
	}
}
