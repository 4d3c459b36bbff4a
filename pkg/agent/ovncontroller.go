package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
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
	pid, err := os.ReadFile(filepath.Join(c.dir, "ovn-controller.pid"))
	if err != nil {
		return err
	}
	socket := filepath.Join(c.dir, fmt.Sprintf("ovn-controller.%s.ctl", bytes.TrimSpace(pid)))
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	version, err := askVersion(conn)
	if err != nil {
		return err
	}
	c.set(true, version)
	_, err = conn.Read(make([]byte, 1)) // nothing more comes but the end
	return fmt.Errorf("its connection ended: %w", err)
}

// askVersion speaks ovs-appctl's JSON-RPC (unixctl): the first line of the reply to "version" is "ovn-controller 25.03.0".
func askVersion(conn net.Conn) (string, error) {
	if _, err := conn.Write([]byte(`{"id":0,"method":"version","params":[]}`)); err != nil {
		return "", err
	}
	var reply struct {
		Result string          `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if err := json.NewDecoder(conn).Decode(&reply); err != nil {
		return "", err
	}
	first, _, _ := strings.Cut(reply.Result, "\n")
	return strings.TrimPrefix(first, "ovn-controller "), nil
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
