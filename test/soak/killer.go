package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/weft-network/weft/test/poll"
	"github.com/weft-network/weft/test/sandbox"
)

// serves bounds how long the next agent may take to answer.
const serves = 2 * time.Minute

// killer kills the agent at random moments.
type killer struct {
	*run
	rng *rand.Rand
}

// amongADDs spreads its kills over the first four fifths of the ADDs, so that the last agent's leaks show in its own
// counts.
func (k *killer) amongADDs(ctx context.Context) error {
	for i := range k.Kills {
		step := max(1, k.ADDs*4/5/max(1, k.Kills))
		select {
		case <-k.account.reached(i*step + k.rng.IntN(step)):
		case <-ctx.Done():
			return nil
		}
		if err := k.kill(ctx); err != nil {
			return fmt.Errorf("kill %d of %d: %w", i+1, k.Kills, err)
		}
		k.account.count("kill -9 of the agent")
	}
	return nil
}

// kill kills the agent and waits until the next one serves. kubelet restarts the container immediately after the
// first kill, but only after 10 s or more after later kills. Then the pod is replaced too.
func (k *killer) kill(ctx context.Context) error {
	agent, err := k.bed.AwaitAgent(ctx, k.Node, "")
	if err != nil {
		return err
	}
	defer k.kills.begin()()
	if err := k.bed.KillAgent(ctx, agent); err != nil {
		return err
	}
	if restarted := agent.Pod.Status.ContainerStatuses[0].RestartCount > 0; restarted || k.rng.IntN(2) == 0 {
		if err := k.bed.ReplaceAgent(ctx, agent); err != nil {
			return err
		}
	}
	return poll.Slowly(ctx, serves, func() error { return k.serving(ctx, agent.PID) })
}

// serving returns nil if a process other than the former one answers STATUS.
func (k *killer) serving(ctx context.Context, former string) error {
	pid, err := k.bed.Shell(ctx, k.Node, "busybox pidof weft-agent || true")
	if err != nil {
		return err
	}
	if pid == former || len(strings.Fields(pid)) != 1 {
		return fmt.Errorf("the agent's processes are %q, before %s", pid, former)
	}
	ends, err := k.sandboxes.Call(ctx, sandbox.Call{Plugin: plugin, Command: "STATUS", Config: config})
	if err != nil {
		return err
	}
	if ends[0].Exit != 0 {
		return errors.New("STATUS: " + ends[0].Output)
	}
	return nil
}

// disturbances are the periods without an agent, which explain failures.
type disturbances struct {
	mu   sync.Mutex
	all  []disturbance
	open bool
}

type disturbance struct{ from, to time.Time }

// begin starts a period before a kill; end finishes it when the next agent serves.
func (d *disturbances) begin() (end func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = true
	d.all = append(d.all, disturbance{from: time.Now()})
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.open = false
		d.all[len(d.all)-1].to = time.Now()
	}
}

// during reports whether an agent was missing at any time since a time.
func (d *disturbances) during(since time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open || len(d.all) > 0 && d.all[len(d.all)-1].to.After(since)
}
