package agent

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

// watch calls changed when somebody changes the folder of the runtime's configurations: ours comes back, and another network's is told.
func (c *cniConfig) watch(changed func()) manager.RunnableFunc {
	return func(ctx context.Context) error {
		if err := c.follow(ctx, changed); err != nil { // a node without inotify instances works as well; what changes is seen at the next look
			ctrl.Log.WithName("cni").Error(err, "The folder of CNI configurations is not watched", "folder", c.confDir)
		}
		return nil
	}
}

func (c *cniConfig) follow(ctx context.Context, changed func()) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer watcher.Close()
	if err := watcher.Add(c.confDir); err != nil {
		return err
	}
	changed() // nobody told of what came before
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-watcher.Errors:
			if !errors.Is(err, fsnotify.ErrEventOverflow) { // which hides news
				return err
			}
			changed()
		case event := <-watcher.Events:
			if isConfiguration(event.Name) {
				changed()
			}
		}
	}
}

// isConfiguration reports whether a runtime looks at the file (libcni.ConfFiles). What becomes ours when it is renamed has another end of its name.
func isConfiguration(path string) bool {
	return slices.Contains([]string{".conf", ".conflist", ".json"}, filepath.Ext(path))
}

// other is the file that the runtime takes instead of ours: the first by name that is a configuration, unless it hands on to us. Empty: none.
func (c *cniConfig) other() string {
	entries, err := os.ReadDir(c.confDir) // sorted
	if err != nil {
		return "" // ours was written a moment ago
	}
	for _, entry := range entries {
		path := filepath.Join(c.confDir, entry.Name())
		if entry.Name() >= configName {
			return ""
		}
		if !isConfiguration(path) {
			continue
		}
		if text, err := os.ReadFile(path); err == nil && isNetwork(text) && !handsOn(text) {
			return path
		}
	}
	return ""
}

// isNetwork reports whether a runtime can read it: what it cannot it leaves out.
func isNetwork(text []byte) bool {
	var network struct {
		Type    string
		Plugins []json.RawMessage
	}
	return json.Unmarshal(text, &network) == nil && (network.Type != "" || len(network.Plugins) > 0)
}

// handsOn reports whether it has our plugin, or calls another network by its file or its name as Multus does.
func handsOn(text []byte) bool {
	return slices.ContainsFunc([]string{`"` + pluginName + `"`, configName, `"` + networkName + `"`}, func(word string) bool { return bytes.Contains(text, []byte(word)) })
}
