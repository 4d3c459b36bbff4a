package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/test/poll"
	"github.com/weft-network/weft/test/testbed"
)

const (
	// batch is the number of pods that start together; each uses about 20 MiB.
	batch = 20
	// starts and ends bound how long kubelet may take for a batch while the agent is killed; it retries after 10 s
	// or more.
	starts, ends = 4 * time.Minute, 2 * time.Minute
)

// throughKubelet starts and ends pods in batches, with a kill during a third of the starts and a third of the ends.
func (r *run) throughKubelet(ctx context.Context) error {
	k := &killer{run: r, rng: rand.New(rand.NewPCG(r.Seed, 3))}
	for first := 0; first < r.Pods; first += batch {
		var pods []*corev1.Pod
		for i := first; i < min(first+batch, r.Pods); i++ {
			pods = append(pods, r.bed.Pausing(fmt.Sprintf("kubelet-%d", i), r.Node))
		}
		if err := k.during(ctx, func() error { return r.start(ctx, pods) }); err != nil {
			return fmt.Errorf("start pods %d to %d: %w", first, first+len(pods)-1, err)
		}
		if err := k.during(ctx, func() error { return r.endPods(ctx, pods) }); err != nil {
			return fmt.Errorf("end pods %d to %d: %w", first, first+len(pods)-1, err)
		}
	}
	return nil
}

// during runs do, and in one of three cases kills the agent meanwhile.
func (k *killer) during(ctx context.Context, do func() error) error {
	if k.Kills == 0 || k.rng.IntN(3) != 0 {
		return do()
	}
	var killed error
	var done sync.WaitGroup
	done.Go(func() { killed = k.kill(ctx) })
	err := do()
	done.Wait()
	k.account.count("kill -9 of the agent while kubelet was busy")
	return errors.Join(err, killed)
}

// start creates pods and waits until they are Ready.
func (r *run) start(ctx context.Context, pods []*corev1.Pod) error {
	for _, p := range pods {
		if err := r.bed.API.Create(ctx, p); err != nil {
			return err
		}
	}
	return poll.Slowly(ctx, starts, func() error {
		for _, p := range pods {
			if err := r.bed.API.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
				return err
			}
			if !testbed.Ready(p) {
				return fmt.Errorf("pod %s is not Ready", p.Name)
			}
		}
		return nil
	})
}

// endPods deletes pods and waits until kubelet has released them.
func (r *run) endPods(ctx context.Context, pods []*corev1.Pod) error {
	for _, p := range pods {
		if err := r.bed.API.Delete(ctx, p, client.GracePeriodSeconds(1)); err != nil {
			return err
		}
		r.account.count("pod through kubelet")
	}
	return poll.Slowly(ctx, ends, func() error {
		for _, p := range pods {
			if err := r.bed.API.Get(ctx, client.ObjectKeyFromObject(p), p); client.IgnoreNotFound(err) != nil || err == nil {
				return errors.Join(fmt.Errorf("pod %s still exists", p.Name), client.IgnoreNotFound(err))
			}
		}
		return nil
	})
}
