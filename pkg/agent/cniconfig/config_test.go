package cniconfig

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"
)

func newCNIConfig(t *testing.T) *Config {
	t.Helper()
	dir := t.TempDir()
	c := &Config{
		Socket: "/run/weft/cni.sock", ConfDir: filepath.Join(dir, "net.d"),
		BinDir: filepath.Join(dir, "opt", "cni", "bin"), BinSource: filepath.Join(dir, "source"),
	}
	for _, d := range []string{c.ConfDir, c.BinSource} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func put(t *testing.T, content string, path ...string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(path...), []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
}

func wantFile(t *testing.T, want string, path ...string) os.FileInfo {
	t.Helper()
	name := filepath.Join(path...)
	got, err := os.ReadFile(name)
	if err != nil || string(got) != want {
		t.Errorf("%s is %q, %v, want %q", name, got, err, want)
	}
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// Install replaces weft-cni at each start, but no other existing plugin.
func TestInstall(t *testing.T) {
	c := newCNIConfig(t)
	put(t, "weft 1", c.BinSource, "weft-cni")
	put(t, "loopback of ours", c.BinSource, "loopback")
	if err := c.Install(); err != nil {
		t.Fatal(err)
	}
	wantFile(t, "loopback of ours", c.BinDir, "loopback")
	put(t, "weft 2", c.BinSource, "weft-cni")
	put(t, "loopback of the distribution", c.BinDir, "loopback")
	if err := c.Install(); err != nil {
		t.Fatal(err)
	}
	if info := wantFile(t, "weft 2", c.BinDir, "weft-cni"); info.Mode().Perm() != 0o755 {
		t.Errorf("mode is %s", info.Mode())
	}
	wantFile(t, "loopback of the distribution", c.BinDir, "loopback")
}

// Install writes a file only if its content or mode differs.
func TestInstallIsByContent(t *testing.T) {
	c := newCNIConfig(t)
	put(t, "weft 1", c.BinSource, "weft-cni")
	install := func() os.FileInfo {
		t.Helper()
		if err := c.Install(); err != nil {
			t.Fatal(err)
		}
		return wantFile(t, "weft 1", c.BinDir, "weft-cni")
	}
	first := install()
	if again := install(); !os.SameFile(first, again) {
		t.Error("the same plugin was written again")
	}
	if err := os.Chmod(filepath.Join(c.BinDir, "weft-cni"), 0o600); err != nil {
		t.Fatal(err)
	}
	if repaired := install(); repaired.Mode().Perm() != 0o755 {
		t.Errorf("the mode is still %s", repaired.Mode())
	}
	put(t, "weft X", c.BinDir, "weft-cni") // of the same length
	install()
}

// An agent that is killed while it writes leaves a file of another name, which the next agent removes.
func TestCrashLeavesNoParts(t *testing.T) {
	c := newCNIConfig(t)
	put(t, "half", c.ConfDir, ".05-weft.conflist123456")
	if err := c.Write(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(c.ConfDir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "05-weft.conflist" {
		t.Errorf("the folder has %v, %v", entries, err)
	}
}

// libcni, which runtimes use, can read the configuration.
func TestConfigurationIsLibcnis(t *testing.T) {
	c := newCNIConfig(t)
	if c.Written() {
		t.Error("Written is true before Write")
	}
	if err := c.Write(); err != nil || !c.Written() {
		t.Fatalf("written %v, error %v", c.Written(), err)
	}
	list, err := libcni.NetworkConfFromFile(filepath.Join(c.ConfDir, "05-weft.conflist"))
	if err != nil {
		t.Fatal(err)
	}
	if list.Name != "weft" || list.CNIVersion != "1.1.0" || len(list.Plugins) != 1 || list.Plugins[0].Network.Type != "weft-cni" {
		t.Errorf("libcni reads %+v", list)
	}
}

// A correct configuration is not written again, because a runtime reads it at each event of its directory.
func TestConfigurationIsNotTouchedWhenItIsThere(t *testing.T) {
	c := newCNIConfig(t)
	if err := c.Write(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(c.ConfDir, "05-weft.conflist")
	old := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	if err := os.Chtimes(name, old, old); err != nil {
		t.Fatal(err)
	}
	next := &Config{Socket: c.Socket, ConfDir: c.ConfDir}
	if err := next.Write(); err != nil || !next.Written() {
		t.Fatalf("written %v, error %v", next.Written(), err)
	}
	if info, err := os.Stat(name); err != nil || !info.ModTime().Equal(old) {
		t.Errorf("the file was written again: %v", err)
	}
	put(t, "{}", name)
	if err := next.Write(); err != nil {
		t.Fatal(err)
	}
	content, _ := c.content(nil)
	wantFile(t, string(content), name)
}

// A service mesh adds its plugin to our list, in its own formatting, and removes it when it goes. Write keeps the plugin,
// restores only what is ours, and does not write while nothing of ours has changed.
func TestPluginsOfOthersStay(t *testing.T) {
	const mesh = `{"type":"mesh-cni","log_level":"info","limit":12345678901234567890}`
	c := newCNIConfig(t)
	name := filepath.Join(c.ConfDir, "05-weft.conflist")
	ours := func() string { content, _ := c.content(nil); return string(content) }()
	edited := func(plugins string) string {
		var list map[string]json.RawMessage
		if err := json.Unmarshal([]byte(ours), &list); err != nil {
			t.Fatal(err)
		}
		list["plugins"] = json.RawMessage(plugins)
		text, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	const weft = `{"socket":"/run/weft/cni.sock","type":"weft-cni"}`
	for _, test := range []struct{ what, content, want string }{
		{"added behind ours", edited("[" + weft + "," + mesh + "]"), edited("[" + weft + "," + mesh + "]")},
		{"removed again", edited("[" + weft + "]"), ours},
		{"added before ours", edited("[" + mesh + "," + weft + "]"), edited("[" + weft + "," + mesh + "]")},
		{"ours was changed", edited(`[{"type":"weft-cni","socket":"/tmp/x"},` + mesh + "]"), edited("[" + weft + "," + mesh + "]")},
		{"ours was removed", edited("[" + mesh + "]"), edited("[" + weft + "," + mesh + "]")},
		{"a plugin without a type", edited("[" + weft + `,{"name":"x"}]`), ours},
		{"half a file", `{"plugins":[` + mesh, ours},
		{"another form", `{"plugins":"mesh-cni"}`, ours},
	} {
		t.Run(test.what, func(t *testing.T) {
			put(t, test.content, name)
			for range 2 {
				if err := c.Write(); err != nil {
					t.Fatal(err)
				}
			}
			got, err := os.ReadFile(name)
			if err != nil || !sameMeaning(got, []byte(test.want)) {
				t.Errorf("the file is %s, %v, want %s", got, err, test.want)
			}
			if test.content == test.want && string(got) != test.content {
				t.Errorf("the file was formatted again: %s", got)
			}
			if list, err := libcni.NetworkConfFromFile(name); err != nil || list.Plugins[0].Network.Type != "weft-cni" {
				t.Errorf("libcni reads %+v, %v", list, err)
			}
		})
	}
}
