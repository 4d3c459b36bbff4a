package cniserver

import (
	"context"
	"errors"
	"slices"
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

// Turns lets requests of one pod, and whoever else works on its interface, take turns.
type Turns struct {
	mu    sync.Mutex
	byPod map[string]*podLock // pod -> its lock, while someone holds or awaits it
}

// NewTurns returns turns that nobody holds.
func NewTurns() *Turns { return &Turns{byPod: map[string]*podLock{}} }

// Try takes the pod's turn if no request has it or waits for it; done gives it back.
func (l *Turns) Try(namespace, pod string) (done func(), ok bool) {
	key := turnOf(namespace, pod)
	select {
	case l.enter(key).turn <- struct{}{}:
		return func() { l.unlock(key) }, true
	default:
		l.leave(key)
		return nil, false
	}
}

func turnOf(namespace, pod string) string { return namespace + "/" + pod }

type podLock struct {
	turn  semaphore // of one place
	users int
	adds  []*addUnderWay
}

// addUnderWay is an ADD that has its pod's turn or waits for it.
type addUnderWay struct {
	container string
	end       context.CancelCauseFunc
}

// ErrOvertaken is why an ADD ends when one of another sandbox of its pod comes: kubelet has given the earlier sandbox up, perhaps without
// the runtime's noticing.
var ErrOvertaken = errors.New("a newer sandbox of the pod has come")

// overtake ends the ADDs of the pod's other sandboxes, which then give the turn back. The ADD itself may be overtaken until done.
func (l *Turns) overtake(pod, container string, end context.CancelCauseFunc) (done func()) {
	lock, mine := l.enter(pod), &addUnderWay{container, end}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, other := range lock.adds {
		if other.container != container {
			other.end(ErrOvertaken)
		}
	}
	lock.adds = append(lock.adds, mine)
	return func() {
		l.mu.Lock()
		lock.adds = slices.DeleteFunc(lock.adds, func(a *addUnderWay) bool { return a == mine })
		l.mu.Unlock()
		l.leave(pod)
	}
}

func (l *Turns) lock(ctx context.Context, pod string) error {
	err := l.enter(pod).turn.acquire(ctx)
	if err != nil {
		l.leave(pod)
	}
	return err
}

func (l *Turns) unlock(pod string) {
	l.leave(pod).turn.release()
}

func (l *Turns) enter(pod string) *podLock {
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

func (l *Turns) leave(pod string) *podLock {
	l.mu.Lock()
	defer l.mu.Unlock()
	lock := l.byPod[pod]
	lock.users--
	if lock.users == 0 {
		delete(l.byPod, pod)
	}
	return lock
}
