package launch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/weft-network/weft/pkg/install/programs"
)

// Describe returns the version of the program and a digest of everything that it starts with. Schemas are read below
// root.
func (p Program) Describe(ctx context.Context, root string) (programs.Program, error) {
	path, err := exec.LookPath(p.Argv[0])
	if err != nil {
		return programs.Program{}, err
	}
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return programs.Program{}, fmt.Errorf("%s --version: %w", path, err)
	}
	files := []string{path}
	if p.Database != nil {
		files = append(files, filepath.Join(root, p.Database.Schema))
	}
	build, err := p.digest(files)
	return programs.Program{Version: versionIn(string(out)), Build: build}, err
}

// digest returns a digest of the files' contents, the arguments and the configuration.
func (p Program) digest(files []string) (string, error) {
	settings, err := json.Marshal(struct {
		Argv  []string
		Files map[string]string
	}{p.Argv, p.Files})
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	sum.Write(settings)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		one := sha256.Sum256(content)
		sum.Write(one[:])
	}
	return hex.EncodeToString(sum.Sum(nil)[:8]), nil
}

// versionIn returns the last word of the first line: "ovs-vswitchd (Open vSwitch) 3.5.0".
func versionIn(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	words := strings.Fields(first)
	if len(words) == 0 {
		return ""
	}
	return words[len(words)-1]
}
