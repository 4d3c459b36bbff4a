package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
)

// ModuleFolder finds the sources of a module that one of the lab's uses, and downloads them when they are not there.
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
