package lab

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/weft-network/weft/test/lab/image"
)

const (
	// Where Debian's dynamic loader is, and where it looks for libraries.
	loaderPath  = "/lib64/ld-linux-x86-64.so.2"
	libraryPath = "/usr/lib/x86_64-linux-gnu"
)

// linkedPrograms are those that the agent runs, with their libraries: ovs-ofctl of the cache, and this machine's nft, which is older and
// so does with the other's C library.
func (c *Cluster) linkedPrograms(ctx context.Context) ([]image.File, error) {
	root := filepath.Join(c.Cache.Dir, "ovn", "root")
	nft, err := exec.LookPath("nft")
	if err != nil {
		return nil, err
	}
	ofctl := filepath.Join(root, "usr/bin/ovs-ofctl")
	var files []image.File
	seen := map[string]bool{}
	add := func(path, source string) {
		if !seen[path] {
			seen[path] = true
			files = append(files, image.File{Path: path, Source: source})
		}
	}
	add("/usr/bin/ovs-ofctl", ofctl)
	add("/usr/sbin/nft", nft)
	loader := filepath.Join(root, "usr/lib64/ld-linux-x86-64.so.2")
	add(loaderPath, loader)
	for _, list := range [][]string{{loader, "--library-path", filepath.Join(root, libraryPath), "--list", ofctl}, {loaderPath, "--list", nft}} {
		libraries, err := librariesOf(ctx, list)
		if err != nil {
			return nil, err
		}
		for _, library := range libraries {
			add(filepath.Join(libraryPath, filepath.Base(library)), library)
		}
	}
	return files, nil
}

// librariesOf runs a loader that lists "libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f16d8acf000)".
func librariesOf(ctx context.Context, list []string) ([]string, error) {
	out, err := exec.CommandContext(ctx, list[0], list[1:]...).Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(list, " "), err)
	}
	var found []string
	for _, line := range strings.Split(string(out), "\n") {
		name, at, ok := strings.Cut(strings.TrimSpace(line), " => ")
		if path, _, _ := strings.Cut(at, " ("); ok && filepath.IsAbs(path) && !strings.HasPrefix(name, "/") {
			found = append(found, path)
		}
	}
	return found, nil
}
