package secondary

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"
)

// rootExec runs plugins in the node's file system. It implements invoke.Exec.
type rootExec struct {
	version.PluginDecoder
	root string // empty: the agent's own file system
}

// ExecPlugin implements invoke.Exec. A plugin's error comes on its standard output, as the specification says.
func (e *rootExec) ExecPlugin(ctx context.Context, path string, stdin []byte, environ []string) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	argv := []string{path}
	if e.root != "" {
		argv = []string{"/proc/self/exe", LaunchCommand, e.root, path}
	}
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Env, c.Stdin, c.Stdout, c.Stderr = environ, bytes.NewReader(stdin), &stdout, &stderr
	c.WaitDelay = undoTimeout
	if err := c.Run(); err != nil {
		return nil, pluginError(err, stdout.Bytes(), stderr.Bytes())
	}
	return stdout.Bytes(), nil
}

// pluginError returns a plugin's own error, or the error of its process if it printed no error.
func pluginError(err error, stdout, stderr []byte) error {
	var own types.Error
	if json.Unmarshal(stdout, &own) == nil && own.Msg != "" {
		return &own
	}
	return fmt.Errorf("%w: %q %q", err, bytes.TrimSpace(stdout), bytes.TrimSpace(stderr))
}

// FindInPath implements invoke.Exec. The result is a path in the node's file system.
func (e *rootExec) FindInPath(plugin string, paths []string) (string, error) {
	if e.root == "" {
		return invoke.FindInPath(plugin, paths)
	}
	if plugin == "" || filepath.Base(plugin) != plugin {
		return "", fmt.Errorf("plugin name %q is not a file's name", plugin)
	}
	for _, dir := range paths {
		info, err := os.Stat(filepath.Join(e.root, dir, plugin))
		if err == nil && info.Mode().IsRegular() {
			return filepath.Join(dir, plugin), nil
		}
	}
	return "", fmt.Errorf("plugin %q is not in %v of the node", plugin, paths)
}
