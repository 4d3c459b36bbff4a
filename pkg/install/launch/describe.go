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

// Describe returns the version of the program and a digest of everything that it starts with. root is "/", or the folder with the tree of
// another image. The program prints its version, unless version is set, as for another architecture.
func (p Program) Describe(ctx context.Context, root, version string) (programs.Program, error) {
	path, err := p.find(root)
	if err != nil {
		return programs.Program{}, err
	}
	if version == "" {
		out, err := exec.CommandContext(ctx, p.Argv[0], "--version").Output()
		if err != nil {
			return programs.Program{}, fmt.Errorf("%s --version: %w", p.Argv[0], err)
		}
		version = versionIn(string(out))
	}
	files := []string{path}
	if p.Database != nil {
		files = append(files, filepath.Join(root, p.Database.Schema))
	}
	build, err := p.digest(files)
	return programs.Program{Version: version, Build: build}, err
}

// find returns the path of the executable: below root, if it is there, or else in the PATH.
func (p Program) find(root string) (string, error) {
	for _, folder := range []string{"usr/sbin", "usr/bin"} {
		path := filepath.Join(root, folder, p.Argv[0])
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	return exec.LookPath(p.Argv[0])
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
