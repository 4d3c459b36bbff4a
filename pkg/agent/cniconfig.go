package agent

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

const (
	configName  = "05-weft.conflist"
	pluginName  = "weft-cni"
	networkName = "weft"
)

// cniConfig is what the runtime finds on the host: the plugins and the network configuration list.
type cniConfig struct {
	socket    string
	confDir   string
	binDir    string
	binSource string

	mu   sync.Mutex
	done bool
}

// install copies the plugins to the host: ours always, others (loopback on a bare node) only where they are absent.
func (c *cniConfig) install() error {
	entries, err := os.ReadDir(c.binSource)
	if err != nil {
		return fmt.Errorf("CNI plugins: %w", err)
	}
	if err := os.MkdirAll(c.binDir, 0o755); err != nil {
		return fmt.Errorf("CNI plugins: %w", err)
	}
	for _, entry := range entries {
		target := filepath.Join(c.binDir, entry.Name())
		if _, err := os.Stat(target); err == nil && entry.Name() != pluginName {
			continue
		}
		content, err := os.ReadFile(filepath.Join(c.binSource, entry.Name()))
		if err != nil {
			return fmt.Errorf("CNI plugins: %w", err)
		}
		if err := putFile(target, content, 0o755); err != nil { // a runtime may be executing the present one
			return fmt.Errorf("CNI plugins: %w", err)
		}
	}
	return nil
}

// written reports whether this agent has written the configuration.
func (c *cniConfig) written() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done
}

// write puts the configuration where the runtime looks, in one step, unless it is there already.
func (c *cniConfig) write() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	content, err := c.content()
	if err != nil {
		return err
	}
	if err := putFile(filepath.Join(c.confDir, configName), content, 0o644); err != nil {
		return fmt.Errorf("CNI configuration: %w", err)
	}
	c.done = true
	return nil
}

// remove takes the configuration away and then our plugin, in this order: a runtime that finds a configuration calls its plugin. The
// loopback plugin stays, since other configurations need it.
func (c *cniConfig) remove() error {
	if err := dropFile(filepath.Join(c.confDir, configName)); err != nil {
		return fmt.Errorf("CNI configuration: %w", err)
	}
	if err := dropFile(filepath.Join(c.binDir, pluginName)); err != nil {
		return fmt.Errorf("CNI plugins: %w", err)
	}
	return nil
}

// content is the configuration list. libcni uses the highest of cniVersions that it knows, others cniVersion.
func (c *cniConfig) content() ([]byte, error) {
	text, err := json.MarshalIndent(map[string]any{
		"cniVersion":  "1.0.0",
		"cniVersions": []string{"0.3.1", "0.4.0", "1.0.0", "1.1.0"},
		"name":        networkName,
		"plugins":     []any{map[string]any{"type": pluginName, "socket": c.socket}},
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("CNI configuration: %w", err)
	}
	return append(text, '\n'), nil
}
