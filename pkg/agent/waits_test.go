package agent_test

import (
	"fmt"
	"strings"
	"sync"
)

// noPort is the state of an ADD that waits for its pod's port.
const noPort = "the operator has not given it a port yet"

// waits records the last state in which each ADD waits.
type waits struct {
	mu     sync.Mutex
	states map[string]string // logical port -> state
}

// failpoint receives the points of the agent's requests.
func (w *waits) failpoint(point string) {
	port, state, ok := strings.Cut(strings.TrimPrefix(point, "ADD of "), " waits: ")
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.states == nil {
		w.states = map[string]string{}
	}
	w.states[port] = state
	changes.Notify()
}

func (w *waits) of(port string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.states[port]
}

// forget makes awaitWait wait for a new ADD of the port, or until the present one was woken and waits again.
func (w *waits) forget(port string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.states, port)
}

// awaitWait waits until the pod's ADD waits in a state. The ADD must not be answered before.
func (n *node) awaitWait(p pod, answers <-chan answer, state string) {
	n.Helper()
	n.awaitWaitFor(p, p.port(), answers, state)
}

// awaitWaitFor is awaitWait for one of the pod's ports.
func (n *node) awaitWaitFor(p pod, port string, answers <-chan answer, state string) {
	n.Helper()
	n.until("the ADD of "+p.name+" waits", func() error {
		if have := n.waits.of(port); !strings.Contains(have, state) {
			return fmt.Errorf("it waits in state %q, want %q", have, state)
		}
		return nil
	})
	select {
	case a := <-answers:
		n.Fatalf("the ADD of %s was answered: %v, %v", p.name, a.result, a.err)
	default:
	}
}
