package agent

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/weft-network/weft/pkg/unixctl"
)

const (
	// daemonRetry spaces attempts to reach a daemon that is not there.
	daemonRetry = time.Second
	// askDaemon is how often a daemon that runs is asked: one that hangs keeps its connections.
	askDaemon = 15 * time.Second
	// daemonSilence is how long it may take: an ovn-controller that computes all flows of a large network answers when it has.
	daemonSilence = 30 * time.Second
)

// daemon knows whether ovn-controller or ovs-vswitchd runs: their rows stay when they are killed, so that no database can tell.
// An open connection to its control socket ends with the process: that is the event. While there is none it is tried again.
type daemon struct {
	program string
	dir     string // its run directory; empty: not watched
	ask     string // the command that a daemon that works answers
	want    string // what it answers then; empty: anything
	log     logr.Logger
	changed func()
	every   time.Duration // 0: askDaemon
	silence time.Duration // 0: daemonSilence

	absence absence

	mu      sync.Mutex
	running bool
	version string
	amiss   string // what it answered instead of want, twice in a row; empty: it did not
}

// state returns an error while the daemon does not answer, and its version.
func (c *daemon) state() (version string, err error) {
	if c.dir == "" {
		return "", nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.running {
		return c.version, fmt.Errorf("%s does not answer in %s", c.program, c.dir)
	}
	return c.version, nil
}

// trouble is what a daemon that runs says of itself that is not as it should be; empty: nothing.
func (c *daemon) trouble() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.amiss
}

// run watches until ctx ends.
func (c *daemon) run(ctx context.Context) error {
	if c.dir == "" {
		return nil
	}
	for ctx.Err() == nil {
		err := c.follow(ctx)
		c.set(false, "")
		c.log.V(1).Info("daemon does not answer", "program", c.program, "reason", err.Error())
		select {
		case <-ctx.Done():
		case <-time.After(daemonRetry):
		}
	}
	return nil
}

// follow stays with one process until it ends. Its error says why there is none.
func (c *daemon) follow(ctx context.Context) error {
	socket, err := unixctl.Socket(c.dir, c.program)
	if err != nil {
		return err
	}
	conn, err := unixctl.Dial(ctx, socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	version, err := conn.Call(ctx, "version") // its first line is "ovn-controller 25.03.0"
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(version, "\n")
	c.set(true, strings.TrimPrefix(first, c.program+" "))
	asking, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		if err := c.question(asking, socket); err != nil && ctx.Err() == nil {
			c.log.Info("daemon hangs", "program", c.program, "reason", err.Error())
			conn.Close()
		}
	}()
	return fmt.Errorf("its connection ended: %w", conn.AwaitEnd())
}

// question asks again and again, each time on a connection of its own, until there is no answer or ctx ends.
func (c *daemon) question(ctx context.Context, socket string) error {
	ticker := time.NewTicker(cmp.Or(c.every, askDaemon))
	defer ticker.Stop()
	before := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		answer, err := c.answer(ctx, socket)
		if err != nil {
			return err
		}
		if c.want == "" || answer == c.want {
			answer = ""
		}
		if answer == "" || answer == before { // what is seen once is a daemon that connects again
			c.say(answer)
		}
		before = answer
	}
}

func (c *daemon) answer(ctx context.Context, socket string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.silence, daemonSilence))
	defer cancel()
	return unixctl.Call(ctx, socket, c.ask)
}

func (c *daemon) say(amiss string) {
	c.mu.Lock()
	news := c.amiss != amiss
	c.amiss = amiss
	c.mu.Unlock()
	if news {
		c.changed()
	}
}

func (c *daemon) set(running bool, version string) {
	c.absence.note(running, time.Now())
	c.mu.Lock()
	was := c.running
	c.running, c.amiss = running, ""
	if version != "" {
		c.version = version
	}
	c.mu.Unlock()
	if running != was {
		c.changed()
	}
}
