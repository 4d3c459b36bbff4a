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

// controllerRetry spaces attempts to reach an ovn-controller that is not there.
const controllerRetry = time.Second

// ovnController knows whether ovn-controller runs. Its Chassis row stays when it is killed, so that the database cannot tell.
// An open connection to its control socket ends with the process: that is the event. While there is none it is tried again.
type ovnController struct {
	dir     string // its run directory; empty: not watched
	log     logr.Logger
	changed func()

	mu      sync.Mutex
	running bool
	version string
}

// state returns an error while ovn-controller does not answer, and its version.
func (c *ovnController) state() (version string, err error) {
	if c.dir == "" {
		return "", nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.running {
		return c.version, fmt.Errorf("ovn-controller does not answer in %s", c.dir)
	}
	return c.version, nil
}

// run watches until ctx ends.
func (c *ovnController) run(ctx context.Context) error {
	if c.dir == "" {
		return nil
	}
	for ctx.Err() == nil {
		err := c.follow(ctx)
		c.set(false, "")
		c.log.V(1).Info("ovn-controller does not answer", "reason", err.Error())
		select {
		case <-ctx.Done():
		case <-time.After(controllerRetry):
		}
	}
	return nil
}

// follow stays with one ovn-controller until it ends. Its error says why there is none.
func (c *ovnController) follow(ctx context.Context) error {
	socket, err := unixctl.Socket(c.dir, "ovn-controller")
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
	c.set(true, strings.TrimPrefix(first, "ovn-controller "))
	return fmt.Errorf("its connection ended: %w", conn.AwaitEnd())
}

func (c *ovnController) set(running bool, version string) {
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
