package leadership

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/retry"
)

// Lease names a lease and its holder, and sets its times.
type Lease struct {
	Namespace, Name string
	// Identity is the holder's name. If it is empty, each process has its own. A container that kubelet restarts in
	// the same pod has the same identity and continues at once, without waiting until its predecessor's lease
	// expires.
	Identity string
	// Duration is how long other processes wait after the last renewal that they saw. It must be whole seconds.
	Duration time.Duration
	// Renew is how long the holder leads after it sent the last accepted renewal. Duration-Renew remains to stop its
	// work.
	Renew time.Duration
	// Retry is the pause between two attempts to take or renew the lease.
	Retry time.Duration
}

// Lock returns the lease of a cluster. Its client has its own connections and no rate limit, so that other requests
// of the process cannot delay a renewal. The connections use HTTP/1.1: a request that times out closes its
// connection, and the next attempt opens a new one. With HTTP/2 all requests would stay on a connection whose peer is
// gone.
func (l Lease) Lock(cluster *rest.Config) (resourcelock.Interface, error) {
	config := rest.AddUserAgent(rest.CopyConfig(cluster), "leader-election")
	config.TLSClientConfig.NextProtos = []string{"http/1.1"}
	config.QPS, config.RateLimiter = -1, nil
	config.Timeout = max(l.Renew/2, time.Second) // leaves time for a second request after one without a response
	client, err := coordinationv1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("lease %s/%s: %w", l.Namespace, l.Name, err)
	}
	identity, err := l.identity()
	if err != nil {
		return nil, fmt.Errorf("lease %s/%s: %w", l.Namespace, l.Name, err)
	}
	return &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: l.Name},
		Client:    client, LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}, nil
}

func (l Lease) identity() (string, error) {
	host, err := os.Hostname()
	return cmp.Or(l.Identity, host+"_"+string(uuid.NewUUID())), err
}

// release frees the lease so that another process can take it at once. If another process already holds it, release
// returns that process' name.
func (l Lease) release(ctx context.Context, lock resourcelock.Interface) (holder string, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.Renew)
	defer cancel()
	// The server can still carry out a renewal that this process has cancelled, which makes the release conflict.
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		holder, err = releaseOnce(ctx, lock)
		return err
	})
	return holder, err
}

func releaseOnce(ctx context.Context, lock resourcelock.Interface) (holder string, err error) {
	record, _, err := lock.Get(ctx)
	if err != nil {
		return "", err
	}
	if record.HolderIdentity != lock.Identity() {
		return record.HolderIdentity, nil
	}
	now := metav1.Now()
	return "", lock.Update(ctx, resourcelock.LeaderElectionRecord{
		LeaderTransitions: record.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now})
}
