package trigger

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A failed reconciliation is repeated after FirstRetry, and then after twice the previous delay, up to LastRetry. A
// failure of one object delays no other, and a success resets the delay.
const (
	FirstRetry = 50 * time.Millisecond
	LastRetry  = 30 * time.Second
)

// Retries returns the rate limiter of a controller's queue.
func Retries() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](FirstRetry, LastRetry)
}
