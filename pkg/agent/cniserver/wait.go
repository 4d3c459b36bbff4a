package cniserver

import (
	"context"
	"sync"
)

// semaphore has as many places as its capacity.
type semaphore chan struct{}

func (s semaphore) acquire(ctx context.Context) error {
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s semaphore) release() { <-s }

// podLocks lets requests of one pod take turns.
type podLocks struct {
	mu    sync.Mutex
	byPod map[string]*podLock // pod -> its lock, while someone holds or awaits it
}

type podLock struct {
	turn  semaphore // of one place
	users int
}

func (l *podLocks) lock(ctx context.Context, pod string) error {
	err := l.enter(pod).turn.acquire(ctx)
	if err != nil {
		l.leave(pod)
	}
	return err
}

func (l *podLocks) unlock(pod string) {
	l.leave(pod).turn.release()
}

func (l *podLocks) enter(pod string) *podLock {
	l.mu.Lock()
	defer l.mu.Unlock()
	lock, known := l.byPod[pod]
	if !known {
		lock = &podLock{turn: make(semaphore, 1)}
		l.byPod[pod] = lock
	}
	lock.users++
	return lock
}

func (l *podLocks) leave(pod string) *podLock {
	l.mu.Lock()
	defer l.mu.Unlock()
	lock := l.byPod[pod]
	lock.users--
	if lock.users == 0 {
		delete(l.byPod, pod)
	}
	return lock
}
