package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weft-network/weft/pkg/agent/cniserver"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/names"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

const (
	// checkInterval is how often the agent checks the interfaces of pods by itself: nobody tells when a link is changed by hand or inside a
	// pod.
	checkInterval = 5 * time.Minute
	// confirmations of a failure come after this part of the interval: a sandbox that ends is no failure.
	confirmPart = 10
	// maxNamed is how many interfaces the condition names.
	maxNamed = 3
)

// selfCheck runs CHECK on every attachment on a slow clock. What fails twice is told by an event on the pod and in the node's status.
type selfCheck struct {
	handler   *cniHandler
	sandboxes *sandboxWatch
	turns     *cniserver.Turns
	every     time.Duration
	tell      func(a desired.Attachment, why error) // of one that has just been confirmed
	observe   func(failing int)
	changed   func()

	mu      sync.Mutex
	suspect map[string]string // interface UUID -> what was wrong at the last look
	failing map[string]error  // logical port -> what is wrong, confirmed
	checked int
}

// run checks until ctx ends.
func (s *selfCheck) run(ctx context.Context) error {
	s.every = cmp.Or(s.every, checkInterval)
	for wait := s.every; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		wait = s.every
		if s.round() {
			wait /= confirmPart
		}
	}
}

// round looks at all; again says that a failure waits for its confirmation. While a database is away there is nothing to compare with.
func (s *selfCheck) round() (again bool) {
	if s.handler.attachable() != nil {
		return false
	}
	suspect, failing := map[string]string{}, map[string]error{}
	all := s.handler.attachments.all()
	for _, have := range all {
		err := s.look(have.Attachment)
		if err == nil {
			continue
		}
		row := desired.AttachmentInterfaceUUID(have.Attachment)
		suspect[row] = err.Error()
		if _, seen := s.suspect[row]; !seen {
			again = true
			continue
		}
		failing[have.InterfaceID] = err
		if s.failing[have.InterfaceID] == nil {
			s.tell(have.Attachment, err)
		}
	}
	s.set(len(all), suspect, failing)
	return again
}

// look is CHECK of one. It leaves out a pod that has a request under way, and one without a port, whose DEL is to come.
func (s *selfCheck) look(a desired.Attachment) error {
	namespace, pod, ok := names.ParsePodPort(a.InterfaceID)
	if !ok || s.sandboxes.isPortless(a) {
		return nil
	}
	done, ok := s.turns.Try(namespace, pod)
	if !ok {
		return nil
	}
	defer done()
	if now, ok := s.handler.attachments.get(a.InterfaceID); !ok || now.ContainerID != a.ContainerID {
		return nil // it was replaced meanwhile
	}
	return s.handler.verify(a)
}

func (s *selfCheck) set(checked int, suspect map[string]string, failing map[string]error) {
	s.mu.Lock()
	differs := !maps.EqualFunc(s.failing, failing, func(a, b error) bool { return a.Error() == b.Error() })
	s.checked, s.suspect, s.failing = checked, suspect, failing
	s.mu.Unlock()
	s.observe(len(failing))
	if differs {
		s.changed()
	}
}

// stage is the node's condition.
func (s *selfCheck) stage() desired.Stage {
	s.mu.Lock()
	defer s.mu.Unlock()
	stage := desired.Stage{Type: networkv1alpha1.ConditionInterfacesReady}
	if len(s.failing) == 0 {
		return stage
	}
	var first error
	for _, port := range slices.Sorted(maps.Keys(s.failing))[:min(maxNamed, len(s.failing))] {
		first = errors.Join(first, s.failing[port])
	}
	stage.Reason, stage.Err = networkv1alpha1.ReasonCheckFailed, fmt.Errorf("%d of %d interfaces of pods: %w", len(s.failing), s.checked, first)
	return stage
}
