package tools

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// ModuleFolder finds the sources of a module that one of the lab's uses.
func ModuleFolder(ctx context.Context, user, modFile, module string) (string, error) {
	root, err := SourceRoot()
	if err != nil {
		return "", err
	}
	list := exec.CommandContext(ctx, "go", "list", "-modfile="+modFile, "-m", "-f", "{{.Dir}}", module)
	list.Dir = filepath.Join(root, "test", "lab", user)
	out, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("find %s: %w", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}
