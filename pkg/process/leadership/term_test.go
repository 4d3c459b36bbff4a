package leadership

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

var testLease = Lease{Namespace: "weft-system", Name: "test", Identity: "us", Duration: 10 * time.Second,
	Renew: 7 * time.Second, Retry: time.Second}

// server is an API server's lease. delay is how long it takes to reply to a request that it has executed, and err is
// its reply.
type server struct {
	mu      sync.Mutex
	record  *resourcelock.LeaderElectionRecord
	delay   time.Duration
	err     error
	written time.Time
}

func (s *server) set(delay time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay, s.err = delay, err
}

func (s *server) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, err := s.do(ctx, nil)
	if err == nil && record == nil {
		err = apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, "test")
	}
	if err != nil {
		return nil, nil, err
	}
	return record, []byte(record.HolderIdentity + record.RenewTime.String()), nil
}

func (s *server) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	_, err := s.do(ctx, &record)
	return err
}

func (s *server) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	_, err := s.do(ctx, &record)
	return err
}

func (s *server) do(ctx context.Context, write *resourcelock.LeaderElectionRecord) (*resourcelock.LeaderElectionRecord, error) {
	s.mu.Lock()
	delay, err := s.delay, s.err
	if err == nil && write != nil {
		s.record, s.written = write, time.Now()
	}
	record := s.record
	s.mu.Unlock()
	select {
	case <-time.After(delay):
		return record, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *server) RecordEvent(string) {}
func (s *server) Identity() string   { return testLease.Identity }
func (s *server) Describe() string   { return "weft-system/test" }

// lastWrite returns when the lease was last written.
func (s *server) lastWrite() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written
}

// campaign starts a term on a server, and returns when it leads. The bubble's clock advances only while no goroutine
// runs.
func campaign(t *testing.T, s *server) *term {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	term := newTerm(ctx, testLease, s, logr.Discard())
	ended := make(chan error, 1)
	go func() { ended <- term.campaign(ctx) }()
	t.Cleanup(func() {
		cancel()
		term.end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	<-term.elected
	return term
}

// lost waits for the end of a leadership and checks its cause.
func lost(t *testing.T, term *term, words string) {
	t.Helper()
	<-term.work.Done()
	if cause := context.Cause(term.work); !errors.Is(cause, ErrLost) || !strings.Contains(cause.Error(), words) {
		t.Errorf("it ended with %v, want ErrLost and %q", cause, words)
	}
	if _, _, err := term.admit(t.Context()); !errors.Is(err, ErrLost) {
		t.Errorf("a write is answered %v, want ErrLost", err)
	}
}

// Other processes may take the lease Duration after they saw the last renewal, however late its response is.
// Duration-Renew before that, the work must be stopped. (The test uses its bubble's clock.)
func TestLeaseIsLostBeforeOthersCanTakeIt(t *testing.T) {
	for what, late := range map[string]time.Duration{"answers at once": 0, "answers come late": 2 * time.Second} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{}
				s.set(late, nil)
				term := campaign(t, s)
				time.Sleep(time.Minute)
				if err := term.work.Err(); err != nil {
					t.Fatalf("a server that answers after %s: %v", late, context.Cause(term.work))
				}
				s.set(0, errors.New("overloaded"))
				lost(t, term, "overloaded")
				if taken := s.lastWrite().Add(testLease.Duration); time.Until(taken) < testLease.Duration-testLease.Renew {
					t.Errorf("%s remain to stop, want %s", time.Until(taken), testLease.Duration-testLease.Renew)
				}
			})
		})
	}
}

func TestServerThatHangsLosesTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		term := campaign(t, s)
		s.set(time.Hour, nil)
		lost(t, term, errSilent.Error())
	})
}

func TestServerThatComesBackInTimeLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		term := campaign(t, s)
		for range 10 {
			s.set(0, errors.New("overloaded"))
			time.Sleep(4 * time.Second)
			s.set(0, nil)
			time.Sleep(5 * time.Second)
		}
		if term.work.Err() != nil {
			t.Errorf("it ended with %v", context.Cause(term.work))
		}
	})
}

// Another holder was written into the lease, so the term ends at once.
func TestLeaseOfAnotherHolderIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		term := campaign(t, s)
		s.mu.Lock()
		s.record = &resourcelock.LeaderElectionRecord{HolderIdentity: "them", LeaseDurationSeconds: 10}
		s.mu.Unlock()
		if _, _, err := term.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		lost(t, term, "them")
	})
}

// A goroutine that is not stopped cannot write, even before a timer has run.
func TestGateRefusesWritesAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		term := campaign(t, s)
		began := make(chan struct{}, 1)
		next := transport(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/slow" {
				began <- struct{}{}
				<-r.Context().Done()
				return nil, context.Cause(r.Context())
			}
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		})
		send := func(method, path string) error {
			request, err := http.NewRequestWithContext(t.Context(), method, "http://api"+path, strings.NewReader("{}"))
			if err != nil {
				return err
			}
			response, err := (&gate{next, term}).RoundTrip(request)
			if err != nil {
				return err
			}
			return response.Body.Close()
		}
		if err := errors.Join(send(http.MethodGet, "/"), send(http.MethodPost, "/")); err != nil {
			t.Error(err)
		}
		slow := make(chan error, 1)
		go func() { slow <- send(http.MethodPatch, "/slow") }()
		<-began
		s.set(0, errors.New("overloaded"))
		if err := <-slow; !errors.Is(err, ErrLost) {
			t.Errorf("a write under way ended with %v, want ErrLost", err)
		}
		if err := send(http.MethodPost, "/"); !errors.Is(err, ErrLost) {
			t.Errorf("a write is answered %v, want ErrLost", err)
		}
		if err := send(http.MethodGet, "/"); err != nil {
			t.Errorf("a read is answered %v", err)
		}
	})
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
