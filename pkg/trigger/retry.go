package trigger

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// What failed is tried again after FirstRetry, and then after twice the time of before, up to LastRetry. A failed attempt at one
// object delays no other, and a success lets it begin anew.
const (
	FirstRetry = 50 * time.Millisecond
	LastRetry  = 30 * time.Second
)

// Retries returns the rate limiter of a controller's queue.
func Retries() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](FirstRetry, LastRetry)
}
