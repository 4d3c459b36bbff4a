package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weft-network/weft/pkg/install/programs"
	"github.com/weft-network/weft/test/lab/image"
)

const (
	// Paths of Debian's dynamic loader and of its libraries.
	loaderPath  = "/lib64/ld-linux-x86-64.so.2"
	libraryPath = "/usr/lib/x86_64-linux-gnu"
)

// debianPrograms are the programs that the Dockerfile's packages put into the image and the product runs: path ->
// path in the packages, if different. ovs-vsctl and similar programs in a container are for people.
var debianPrograms = map[string]string{
	"/usr/bin/ovs-ofctl": "", "/usr/bin/ovs-vsctl": "", "/usr/bin/ovs-appctl": "",
	"/usr/bin/ovsdb-tool": "", "/usr/bin/ovsdb-client": "", "/usr/sbin/ovsdb-server": "",
	"/usr/sbin/ovs-vswitchd": "/usr/lib/openvswitch-switch/ovs-vswitchd", // by update-alternatives
	"/usr/bin/ovn-northd":    "", "/usr/bin/ovn-controller": "",
	"/usr/bin/ovn-nbctl": "", "/usr/bin/ovn-sbctl": "", "/usr/bin/ovn-appctl": "", "/usr/bin/ovn-trace": "",
	"/usr/sbin/charon": "/usr/lib/ipsec/charon", // by the Dockerfile
	// libcrypto for charon, which loads its plugins by name
	"/usr/lib/ipsec/plugins/libstrongswan-openssl.so": "",
}

// strongSwanFiles are charon's libraries, plugins, and the plugins' configurations.
var strongSwanFiles = []string{"/usr/lib/ipsec/lib*", "/usr/lib/ipsec/plugins/*", "/etc/strongswan.conf", "/etc/strongswan.d/charon/*"}

var debianSchemas = []string{"/usr/share/ovn/ovn-nb.ovsschema", "/usr/share/ovn/ovn-sb.ovsschema",
	"/usr/share/openvswitch/vswitch.ovsschema"}

// linkedPrograms returns debianPrograms with their libraries, from the cache, and this machine's nft. This nft is
// older, so it works with the other programs' C library.
func (c *Cluster) linkedPrograms(ctx context.Context) ([]image.File, error) {
	root := c.Cache.Root()
	nft, err := exec.LookPath("nft")
	if err != nil {
		return nil, err
	}
	var files []image.File
	seen := map[string]bool{}
	add := func(path, source string) {
		if !seen[path] {
			seen[path] = true
			files = append(files, image.File{Path: path, Source: source})
		}
	}
	for _, pattern := range strongSwanFiles {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		for _, source := range found {
			add(strings.TrimPrefix(source, root), source)
		}
	}
	loader := filepath.Join(root, "usr/lib64/ld-linux-x86-64.so.2")
	add(loaderPath, loader)
	add("/usr/sbin/nft", nft)
	libraries := filepath.Join(root, libraryPath) + ":" + filepath.Join(root, "usr/lib/ipsec")
	var lists [][]string
	for _, path := range slices.Sorted(maps.Keys(debianPrograms)) {
		packaged := debianPrograms[path]
		if packaged == "" {
			packaged = path
		}
		source := filepath.Join(root, packaged)
		add(path, source)
		lists = append(lists, []string{loader, "--library-path", libraries, "--list", source})
	}
	for _, schema := range debianSchemas {
		add(schema, filepath.Join(root, schema))
	}
	lists = append(lists, []string{loaderPath, "--list", nft}) // last, so that the packages' libraries win over nft's
	for _, list := range lists {
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

// saidPrograms returns the file in which the Dockerfile records the image's programs; dir contains weft-ovn.
func (c *Cluster) saidPrograms(ctx context.Context, dir string, change func(programs.Set)) (image.File, error) {
	out := filepath.Join(dir, filepath.Base(programs.File))
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "weft-ovn"), "programs", "--out="+out,
		"--root="+c.Cache.Root())
	cmd.Env = []string{"PATH=" + filepath.Dir(c.Cache.OVN("ovn-northd"))}
	if text, err := cmd.CombinedOutput(); err != nil {
		return image.File{}, fmt.Errorf("%s: %w\n%s", cmd, err, text)
	}
	file := image.File{Path: programs.File, Source: out}
	if change == nil {
		return file, nil
	}
	set, err := programs.Read(out)
	if err != nil {
		return file, err
	}
	change(set)
	text, err := json.Marshal(set)
	if err != nil {
		return file, err
	}
	return file, os.WriteFile(out, text, 0o644)
}

// librariesOf runs a loader that prints lines such as "libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6
// (0x00007f16d8acf000)".
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
