package attach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/cniserver"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/cni"
	"github.com/weft-network/weft/pkg/ovn/names"
)

const (
	// checkInterval is the time between the agent's checks of the pods' interfaces. No event reports a manual change or a
	// change inside a pod.
	checkInterval = 5 * time.Minute
	// confirmPart is the part of the interval after which a failure is confirmed, because a sandbox that ends is no failure.
	confirmPart = 10
	// maxNamed is the number of interfaces that the condition names.
	maxNamed = 3
)

// SelfCheck runs CHECK on every attachment at long intervals. It reports a failure that it finds twice, also in the
// node's status.
type SelfCheck struct {
	Handler   *Handler
	Sandboxes *Sandboxes
	Turns     *cniserver.Turns
	// Every is the interval; 0 is 5 minutes.
	Every time.Duration
	// Report receives each newly confirmed failure, and Observe the number of failing interfaces after each round.
	Report  func(a desired.Attachment, why error)
	Observe func(failing int)
	// Changed enqueues the node. It is called at each interval, because some changes of the node's state cause no message: proxied
	// neighbours, most sysctls. It is also called when the result of Stage changes.
	Changed func()

	mu      sync.Mutex
	suspect map[string]string // by interface UUID: the failure of the last round
	failing map[string]error  // by logical port: the confirmed failure
	checked int               // attachments of the last round
}

// Run checks until ctx ends.
func (s *SelfCheck) Run(ctx context.Context) error {
	s.Every = cmp.Or(s.Every, checkInterval)
	for wait := s.Every; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		wait = s.Every
		s.Changed()
		if s.round() {
			wait /= confirmPart
		}
	}
}

// round checks all attachments. again reports that a failure needs its confirmation. Without a database it checks
// nothing.
func (s *SelfCheck) round() (again bool) {
	if s.Handler.attachable() != nil {
		return false
	}
	suspect, failing := map[string]string{}, map[string]error{}
	all := s.Handler.Attachments.All()
	for _, have := range all {
		err := s.check(have.Attachment)
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
			s.Report(have.Attachment, err)
		}
	}
	s.set(len(all), suspect, failing)
	return again
}

// check runs CHECK on one attachment. It skips a pod with a request under way, and a pod without a port, whose DEL is to
// come.
func (s *SelfCheck) check(a desired.Attachment) error {
	namespace, pod, ok := names.PodOfPort(a.InterfaceID)
	if !ok || s.Sandboxes.isPortless(a) {
		return nil
	}
	done, ok := s.Turns.Try(namespace, pod)
	if !ok {
		return nil
	}
	defer done()
	if now, ok := s.Handler.Attachments.Get(a.InterfaceID); !ok || now.ContainerID != a.ContainerID {
		return nil // it was replaced meanwhile
	}
	if err := cni.Raise(a.ContainerID, a.IfName); err != nil {
		return err
	}
	return s.Handler.verify(a)
}

func (s *SelfCheck) set(checked int, suspect map[string]string, failing map[string]error) {
	s.mu.Lock()
	differs := !maps.EqualFunc(s.failing, failing, func(a, b error) bool { return a.Error() == b.Error() })
	s.checked, s.suspect, s.failing = checked, suspect, failing
	s.mu.Unlock()
	s.Observe(len(failing))
	if differs {
		s.Changed()
	}
}

// Stage returns the node's condition InterfacesReady.
func (s *SelfCheck) Stage() desired.Stage {
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
	stage.Reason = networkv1alpha1.ReasonCheckFailed
	stage.Err = fmt.Errorf("%d of %d interfaces of pods: %w", len(s.failing), s.checked, first)
	return stage
}
