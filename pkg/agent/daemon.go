package agent

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/weft-network/weft/pkg/unixctl"
)

// daemonRetry spaces attempts to reach a daemon that is not there.
const daemonRetry = time.Second

// daemon knows whether ovn-controller or ovs-vswitchd runs: their rows stay when they are killed, so that no database can tell.
// An open connection to its control socket ends with the process: that is the event. While there is none it is tried again.
type daemon struct {
	program string
	dir     string // its run directory; empty: not watched
	log     logr.Logger
	changed func()

	absence absence

	mu      sync.Mutex
	running bool
	version string
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
	return fmt.Errorf("its connection ended: %w", conn.AwaitEnd())
}

func (c *daemon) set(running bool, version string) {
	c.absence.note(running, time.Now())
	c.mu.Lock()
	was := c.running
	c.running = running
	if version != "" {
		c.version = version
	}
	c.mu.Unlock()
	if running != was {
		c.changed()
	}
}
