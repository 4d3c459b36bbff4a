package cniconfig

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/fsnotify/fsnotify"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Watch calls changed when the runtime's configuration directory or our plugin changes. The caller then restores our files or
// reports another network.
func (c *Config) Watch(changed func()) manager.RunnableFunc {
	return func(ctx context.Context) error {
		// Without inotify the node works as well. The next reconciliation then notices a change.
		if err := c.follow(ctx, changed); err != nil {
			ctrl.Log.WithName("cni").Error(err, "cannot watch the directories of CNI configurations and plugins",
				"folder", c.ConfDir, "plugins", c.BinDir)
		}
		return nil
	}
}

func (c *Config) follow(ctx context.Context, changed func()) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer watcher.Close()
	if err := errors.Join(watcher.Add(c.ConfDir), watcher.Add(c.BinDir)); err != nil {
		return err
	}
	changed() // events from before the watch are lost
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-watcher.Errors:
			if !errors.Is(err, fsnotify.ErrEventOverflow) { // an overflow hides events
				return err
			}
			changed()
		case event := <-watcher.Events:
			isPlugin := event.Name == filepath.Join(c.BinDir, pluginName)
			if isPlugin {
				c.mu.Lock()
				c.stale = true
				c.mu.Unlock()
			}
			if isPlugin || isConfiguration(event.Name) {
				changed()
			}
		}
	}
}

// isConfiguration reports whether a runtime reads a file with that name (libcni.ConfFiles). Our file has another suffix
// until it is renamed.
func isConfiguration(path string) bool {
	return slices.Contains([]string{".conf", ".conflist", ".json"}, filepath.Ext(path))
}

// Other returns the path of the configuration that the runtime uses instead of ours: the first one by name, unless it
// delegates to Weft. The result is empty if the runtime uses ours.
func (c *Config) Other() string {
	entries, err := os.ReadDir(c.ConfDir) // sorted
	if err != nil {
		return "" // our file was written a moment ago
	}
	for _, entry := range entries {
		path := filepath.Join(c.ConfDir, entry.Name())
		if entry.Name() >= Name {
			return ""
		}
		if !isConfiguration(path) {
			continue
		}
		if text, err := os.ReadFile(path); err == nil && isNetwork(text) && !delegates(text) {
			return path
		}
	}
	return ""
}

// isNetwork reports whether a runtime can load the configuration. A runtime skips files that it cannot load.
func isNetwork(text []byte) bool {
	var network struct {
		Type    string
		Plugins []json.RawMessage
	}
	return json.Unmarshal(text, &network) == nil && (network.Type != "" || len(network.Plugins) > 0)
}

// delegates reports whether a configuration contains our plugin, or delegates to our file or network as Multus does.
func delegates(text []byte) bool {
	return slices.ContainsFunc([]string{`"` + pluginName + `"`, Name, `"` + networkName + `"`}, func(word string) bool {
		return bytes.Contains(text, []byte(word))
	})
}
