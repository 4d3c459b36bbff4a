package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
)

// ModuleFolder returns the sources of a dependency of one of the lab's modules, and downloads them if they are
// missing.
func ModuleFolder(ctx context.Context, user, modFile, module string) (string, error) {
	root, err := SourceRoot()
	if err != nil {
		return "", err
	}
	download := exec.CommandContext(ctx, "go", "mod", "download", "-modfile="+modFile, "-json", module)
	download.Dir = filepath.Join(root, "test", "lab", user)
	out, err := download.Output()
	if err != nil {
		return "", fmt.Errorf("download %s: %w: %s", module, err, out)
	}
	var found struct{ Dir string }
	if err := json.Unmarshal(out, &found); err != nil {
		return "", fmt.Errorf("download %s: %w", module, err)
	}
	return found.Dir, nil
}
