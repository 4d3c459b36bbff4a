package trigger

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestRetriesDoubleUpToABound(t *testing.T) {
	retries := Retries()
	refused := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: "refused"}}
	other := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: "other"}}
	total := time.Duration(0)
	for want := FirstRetry; want < LastRetry; want *= 2 {
		if got := retries.When(refused); got != want {
			t.Fatalf("the next retry comes after %s, want %s", got, want)
		}
		total += want
	}
	for range 100 {
		if got := retries.When(refused); got != LastRetry {
			t.Fatalf("a late retry comes after %s, want %s", got, LastRetry)
		}
	}
	if got := retries.When(other); got != FirstRetry {
		t.Errorf("the first retry of another comes after %s, want %s", got, FirstRetry)
	}
	retries.Forget(refused)
	if got := retries.When(refused); got != FirstRetry {
		t.Errorf("after a success the next retry comes after %s, want %s", got, FirstRetry)
	}
	if total > 2*LastRetry {
		t.Errorf("the doubling takes %s", total)
	}
}
