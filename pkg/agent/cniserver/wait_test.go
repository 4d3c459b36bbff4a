package cniserver

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/weft-network/weft/pkg/cni/cniwire"
)

// scene is a server whose ADDs stay in the handler until the test ends them.
type scene struct {
	server *Server
	mu     sync.Mutex
	inside []string                 // containers that entered the handler, in their order
	letGo  map[string]chan struct{} // by container; closed to end its ADD
	ended  map[string]error         // by container; the error of its request
}

func newScene(places int) *scene {
	s := &scene{letGo: map[string]chan struct{}{}, ended: map[string]error{}}
	stay := func(_ context.Context, req cniwire.Request) (*types100.Result, error) {
		<-s.enter(req.ContainerID)
		return &types100.Result{}, nil
	}
	succeeds := func(context.Context, cniwire.Request) error { return nil }
	s.server = New(fake{add: stay, other: succeeds}, Options{MaxRequests: places})
	return s
}

func (s *scene) enter(container string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inside = append(s.inside, container)
	return s.letGo[container]
}

// send sends a request and returns when all goroutines wait.
func (s *scene) send(ctx context.Context, req cniwire.Request) {
	s.letGo[req.ContainerID] = make(chan struct{})
	go func() {
		_, err := s.server.do(ctx, req)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended[req.ContainerID] = err
	}()
	synctest.Wait()
}

func (s *scene) end(container string) {
	close(s.letGo[container])
	synctest.Wait()
}

// of returns an ADD of a pod's container.
func of(pod, container string) cniwire.Request {
	req := request(cniwire.Add, 0)
	req.ContainerID, req.Args.PodName = container, pod
	return req
}

func (s *scene) expect(t *testing.T, inside ...string) {
	t.Helper()
	if !slices.Equal(s.inside, inside) {
		t.Errorf("in the handler were %v, not %v", s.inside, inside)
	}
}

func TestRequestsOfAPodTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(8)
		s.send(t.Context(), of("web-0", "first"))
		s.send(t.Context(), of("web-0", "second"))
		s.send(t.Context(), of("web-1", "other"))
		s.expect(t, "first", "other")
		s.end("first")
		s.expect(t, "first", "other", "second")
		s.end("second")
		s.end("other")
		if len(s.ended) != 3 || len(s.server.pods.byPod) != 0 {
			t.Errorf("ended are %v, locks left %v", s.ended, s.server.pods.byPod)
		}
	})
}

func TestRequestsWaitForAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(2)
		s.send(t.Context(), of("web-0", "a"))
		s.send(t.Context(), of("web-0", "a2")) // waits for its pod and takes no place
		s.send(t.Context(), of("web-1", "b"))
		s.send(t.Context(), of("web-2", "c"))
		s.expect(t, "a", "b")
		s.end("b")
		s.expect(t, "a", "b", "c")
		s.send(t.Context(), request(cniwire.Status, 9))
		if err, answered := s.ended["container9"]; !answered || err != nil {
			t.Errorf("STATUS while all places are taken: %v, %v", answered, err)
		}
		for _, container := range []string{"c", "a", "a2"} {
			s.end(container)
		}
	})
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(1)
		ctx, cancel := context.WithCancel(t.Context())
		s.send(t.Context(), of("web-0", "a"))
		s.send(ctx, of("web-0", "samePod"))
		s.send(ctx, of("web-1", "noPlace"))
		cancel()
		synctest.Wait()
		for container, text := range map[string]string{
			"samePod": "waiting for an earlier request of pod demo/web-0",
			"noPlace": "waiting for one of 1 places",
		} {
			if err := s.ended[container]; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v", container, err)
			}
		}
		s.end("a")
		s.expect(t, "a")
		if len(s.server.pods.byPod) != 0 {
			t.Errorf("locks left are %v", s.server.pods.byPod)
		}
	})
}

// Code that changes a pod's interface without a request must not do so while there is one.
func TestTryTakesOnlyAFreeTurn(t *testing.T) {
	turns := NewTurns()
	done, ok := turns.Try("demo", "web-0")
	if !ok {
		t.Fatal("Try refused a free turn")
	}
	if _, ok := turns.Try("demo", "web-0"); ok {
		t.Error("Try returned a turn twice")
	}
	if other, ok := turns.Try("demo", "web-1"); !ok {
		t.Error("Try refused another pod's turn")
	} else {
		other()
	}
	ctx, giveUp := context.WithCancel(t.Context())
	giveUp()
	if err := turns.lock(ctx, podOf(of("web-0", "c1"))); err == nil {
		t.Error("a request got a turn that is taken")
	}
	done()
	if err := turns.lock(t.Context(), podOf(of("web-0", "c1"))); err != nil {
		t.Errorf("the turn was not released: %v", err)
	}
	turns.unlock("demo/web-0")
	if len(turns.byPod) != 0 {
		t.Errorf("locks left: %v", turns.byPod)
	}
}

// C2: the runtime, or kubelet without the runtime's knowledge, creates a second sandbox while the ADD of the first is
// under way. The newest sandbox wins. The ADD of the first ends and undoes what it did before the second begins. A
// repeated ADD of one sandbox waits like any other request.
func TestTheNewestSandboxOfAPodWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		server := New(fake{add: func(ctx context.Context, req cniwire.Request) (*types100.Result, error) {
			if req.ContainerID == "third" {
				return &types100.Result{}, nil
			}
			<-ctx.Done()
			order = append(order, req.ContainerID)
			return nil, context.Cause(ctx)
		}}, Options{})
		errs := map[string]chan error{}
		start := func(name, pod, container string) {
			errs[name] = make(chan error, 1)
			go func() {
				_, err := server.do(t.Context(), of(pod, container))
				errs[name] <- err
			}()
			synctest.Wait()
		}
		start("first", "web-0", "first")
		start("first again", "web-0", "first")
		start("second", "web-0", "second")
		start("another pod", "web-1", "other")
		if !slices.Equal(order, []string{"first"}) {
			t.Errorf("ended are %v", order)
		}
		start("third", "web-0", "third")
		for _, name := range []string{"first", "second"} {
			if err := <-errs[name]; !errors.Is(err, ErrOvertaken) {
				t.Errorf("%s ended with %v", name, err)
			}
		}
		if err := <-errs["first again"]; err == nil {
			t.Error("the repeated ADD of the first sandbox succeeded")
		}
		if err := <-errs["third"]; err != nil {
			t.Errorf("the newest ended with %v", err)
		}
		if len(errs["another pod"]) != 0 {
			t.Error("another pod's ADD ended")
		}
	})
}
