// Package daemon watches the daemons of OVN and Open vSwitch on a node by their control sockets.
package daemon

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/weft-network/weft/pkg/agent/absence"
	"github.com/weft-network/weft/pkg/ovn/unixctl"
)

const (
	// retry is the time between attempts to reach a daemon that does not run.
	retry = time.Second
	// defaultEvery is the time between queries of a running daemon. A daemon that hangs keeps its connections.
	defaultEvery = 15 * time.Second
	// defaultSilence is how long a reply may take. An ovn-controller that computes all flows of a large network replies only
	// when it is done.
	defaultSilence = 30 * time.Second
)

// Daemon watches whether ovn-controller or ovs-vswitchd runs. No database shows that, because the daemons' rows stay
// when they are killed. Daemon therefore keeps a connection to the control socket, which ends with the process. While
// there is no connection, Run retries.
type Daemon struct {
	Program string
	// Dir is the daemon's run directory. If empty, the daemon is not watched.
	Dir string
	// Query is a command to which a working daemon replies, and Want is the reply. An empty Want accepts any reply.
	Query, Want string
	Log         logr.Logger
	// Changed is called when State or Trouble changes. It must only enqueue.
	Changed func()
	// Every is the time between queries; the default is 15 s. Silence is how long a reply may take; the default is 30 s.
	Every, Silence time.Duration

	absence absence.Absence

	mu      sync.Mutex
	running bool
	version string
	amiss   string // a reply other than Want, received twice in a row; empty otherwise
}

// State returns the daemon's last version, and an error while the daemon does not answer.
func (c *Daemon) State() (version string, err error) {
	if c.Dir == "" {
		return "", nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.running {
		return c.version, fmt.Errorf("%s does not answer in %s", c.Program, c.Dir)
	}
	return c.version, nil
}

// Trouble returns the reply of a running daemon if it is not Want, or else an empty string.
func (c *Daemon) Trouble() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.amiss
}

// Call sends a command to the daemon's control socket.
func (c *Daemon) Call(ctx context.Context, command string) error {
	if c.Dir == "" {
		return nil
	}
	socket, err := unixctl.Socket(c.Dir, c.Program)
	if err != nil {
		return err
	}
	_, err = c.reply(ctx, socket, command)
	return err
}

// BrieflyAway reports whether the daemon answered before and has not answered for less than limit.
func (c *Daemon) BrieflyAway(limit time.Duration) bool {
	return c.absence.ShorterThan(limit, time.Now())
}

// Run watches the daemon until ctx ends.
func (c *Daemon) Run(ctx context.Context) error {
	if c.Dir == "" {
		return nil
	}
	for ctx.Err() == nil {
		err := c.follow(ctx)
		c.set(false, "")
		c.Log.V(1).Info("daemon does not answer", "program", c.Program, "reason", err.Error())
		select {
		case <-ctx.Done():
		case <-time.After(retry):
		}
	}
	return nil
}

// follow watches one process until it ends. The error is the reason why there is no process or no connection.
func (c *Daemon) follow(ctx context.Context) error {
	socket, err := unixctl.Socket(c.Dir, c.Program)
	if err != nil {
		return err
	}
	conn, err := unixctl.Dial(ctx, socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	version, err := conn.Call(ctx, "version") // the first line is "ovn-controller 25.03.0"
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(version, "\n")
	c.set(true, strings.TrimPrefix(first, c.Program+" "))
	querying, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		if err := c.query(querying, socket); err != nil && ctx.Err() == nil {
			c.Log.Info("daemon hangs", "program", c.Program, "reason", err.Error())
			conn.Close()
		}
	}()
	return fmt.Errorf("its connection ended: %w", conn.AwaitEnd())
}

// query sends Query periodically, each time on a new connection, until a reply does not come in time or ctx ends.
func (c *Daemon) query(ctx context.Context, socket string) error {
	ticker := time.NewTicker(cmp.Or(c.Every, defaultEvery))
	defer ticker.Stop()
	before := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		reply, err := c.reply(ctx, socket, c.Query)
		if err != nil {
			return err
		}
		if c.Want == "" || reply == c.Want {
			reply = ""
		}
		if reply == "" || reply == before { // a single such reply can come from a daemon that is reconnecting
			c.setTrouble(reply)
		}
		before = reply
	}
}

func (c *Daemon) reply(ctx context.Context, socket, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.Silence, defaultSilence))
	defer cancel()
	return unixctl.Call(ctx, socket, command)
}

func (c *Daemon) setTrouble(amiss string) {
	c.mu.Lock()
	differs := c.amiss != amiss
	c.amiss = amiss
	c.mu.Unlock()
	if differs {
		c.Changed()
	}
}

func (c *Daemon) set(running bool, version string) {
	c.absence.Note(running, time.Now())
	c.mu.Lock()
	was := c.running
	c.running, c.amiss = running, ""
	if version != "" {
		c.version = version
	}
	c.mu.Unlock()
	if running != was {
		c.Changed()
	}
}
