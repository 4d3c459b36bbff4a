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

// Turns makes the requests of one pod take turns, together with other code that changes the pod's interface.
type Turns struct {
	mu    sync.Mutex
	byPod map[string]*podLock // by pod; an entry exists while someone holds the lock or waits for it
}

// NewTurns returns Turns that are all free.
func NewTurns() *Turns { return &Turns{byPod: map[string]*podLock{}} }

// Try takes the pod's turn if no request has it or waits for it. done releases it.
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

// ErrOvertaken is the cause of the end of an ADD when another sandbox of its pod sends one. kubelet has then abandoned
// the earlier sandbox, possibly without the runtime's knowledge.
var ErrOvertaken = errors.New("a newer sandbox of the pod has come")

// overtake ends the ADDs of the pod's other sandboxes, which then release the turn. The ADD itself can be overtaken
// until it calls done.
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
	lock, ok := l.byPod[pod]
	if !ok {
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
