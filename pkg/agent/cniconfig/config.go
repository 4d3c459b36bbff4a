// Package cniconfig keeps the CNI plugins on the host, and the network configuration list that makes the container
// runtime use them.
package cniconfig

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/weft-network/weft/pkg/networks"
)

// Name is the file name of the network configuration list. It sorts before most other plugins' files.
const Name = "05-weft.conflist"

const (
	pluginName  = networks.Plugin
	networkName = networks.ClusterNetwork
)

// Config keeps the plugins and the network configuration list on the host.
type Config struct {
	// Socket is the path of the agent's socket for the plugin. ConfDir and BinDir are the runtime's directories.
	// BinSource is the directory of the plugins to install.
	Socket, ConfDir, BinDir, BinSource string

	mu    sync.Mutex
	done  bool
	stale bool // another program may have changed the plugin
}

// Install copies the plugins to the host. It always replaces weft-cni, and adds others (loopback on a bare node) only if
// they are missing.
func (c *Config) Install() error {
	entries, err := os.ReadDir(c.BinSource)
	if err != nil {
		return fmt.Errorf("CNI plugins: %w", err)
	}
	if err := os.MkdirAll(c.BinDir, 0o755); err != nil {
		return fmt.Errorf("CNI plugins: %w", err)
	}
	for _, entry := range entries {
		target := filepath.Join(c.BinDir, entry.Name())
		if _, err := os.Stat(target); err == nil && entry.Name() != pluginName {
			continue
		}
		content, err := os.ReadFile(filepath.Join(c.BinSource, entry.Name()))
		if err != nil {
			return fmt.Errorf("CNI plugins: %w", err)
		}
		if err := putFile(target, content, 0o755); err != nil { // not in place: a runtime may be executing the old file
			return fmt.Errorf("CNI plugins: %w", err)
		}
	}
	return nil
}

// Written reports whether this agent has written the configuration.
func (c *Config) Written() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done
}

// Write writes the configuration atomically into the runtime's directory, unless it is there already. Plugins that
// others have added to the file stay behind weft-cni. It also restores a plugin that Watch has seen change.
func (c *Config) Write() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stale {
		if err := c.Install(); err != nil {
			return err
		}
		c.stale = false
	}
	path := filepath.Join(c.ConfDir, Name)
	present, err := os.ReadFile(path)
	if err != nil {
		present = nil // it is absent, or putFile reports why it cannot be replaced
	}
	content, err := c.content(chained(present))
	if err != nil {
		return err
	}
	if sameMeaning(present, content) {
		content = present
	}
	if err := putFile(path, content, 0o644); err != nil {
		return fmt.Errorf("CNI configuration: %w", err)
	}
	c.done = true
	return nil
}

// Remove removes the configuration and then the weft-cni plugin, because a runtime that finds a configuration calls its
// plugin. The loopback plugin stays, because other configurations need it.
func (c *Config) Remove() error {
	if err := dropFile(filepath.Join(c.ConfDir, Name)); err != nil {
		return fmt.Errorf("CNI configuration: %w", err)
	}
	if err := dropFile(filepath.Join(c.BinDir, pluginName)); err != nil {
		return fmt.Errorf("CNI plugins: %w", err)
	}
	return nil
}

// content returns the configuration list with other plugins behind weft-cni. libcni uses the highest version of
// cniVersions that it supports. Other runtimes use cniVersion.
func (c *Config) content(behind []any) ([]byte, error) {
	text, err := json.MarshalIndent(map[string]any{
		"cniVersion":  "1.0.0",
		"cniVersions": []string{"0.3.1", "0.4.0", "1.0.0", "1.1.0"},
		"name":        networkName,
		"plugins":     append([]any{map[string]any{"type": pluginName, "socket": c.Socket}}, behind...),
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("CNI configuration: %w", err)
	}
	return append(text, '\n'), nil
}
