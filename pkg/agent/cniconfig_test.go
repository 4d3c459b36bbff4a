package agent

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"
)

func newCNIConfig(t *testing.T) *cniConfig {
	t.Helper()
	dir := t.TempDir()
	c := &cniConfig{socket: "/run/weft/cni.sock", confDir: filepath.Join(dir, "net.d"), binDir: filepath.Join(dir, "opt", "cni", "bin"), binSource: filepath.Join(dir, "source")}
	for _, d := range []string{c.confDir, c.binSource} {
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

// TestInstall replaces our plugin at each start, and no other's.
func TestInstall(t *testing.T) {
	c := newCNIConfig(t)
	put(t, "weft 1", c.binSource, "weft-cni")
	put(t, "loopback of ours", c.binSource, "loopback")
	if err := c.install(); err != nil {
		t.Fatal(err)
	}
	wantFile(t, "loopback of ours", c.binDir, "loopback")
	put(t, "weft 2", c.binSource, "weft-cni")
	put(t, "loopback of the distribution", c.binDir, "loopback")
	if err := c.install(); err != nil {
		t.Fatal(err)
	}
	if info := wantFile(t, "weft 2", c.binDir, "weft-cni"); info.Mode().Perm() != 0o755 {
		t.Errorf("mode is %s", info.Mode())
	}
	wantFile(t, "loopback of the distribution", c.binDir, "loopback")
}

// TestInstallIsByContent: what is there as it shall be is not written, what is not, or has another mode, is.
func TestInstallIsByContent(t *testing.T) {
	c := newCNIConfig(t)
	put(t, "weft 1", c.binSource, "weft-cni")
	install := func() os.FileInfo {
		t.Helper()
		if err := c.install(); err != nil {
			t.Fatal(err)
		}
		return wantFile(t, "weft 1", c.binDir, "weft-cni")
	}
	first := install()
	if again := install(); !os.SameFile(first, again) {
		t.Error("the same plugin was written again")
	}
	if err := os.Chmod(filepath.Join(c.binDir, "weft-cni"), 0o600); err != nil {
		t.Fatal(err)
	}
	if repaired := install(); repaired.Mode().Perm() != 0o755 {
		t.Errorf("mode stays %s", repaired.Mode())
	}
	put(t, "weft X", c.binDir, "weft-cni") // of the same length
	install()
}

// TestCrashLeavesNoParts: an agent that was killed while it wrote leaves a file of another name, which the next one removes.
func TestCrashLeavesNoParts(t *testing.T) {
	c := newCNIConfig(t)
	put(t, "half", c.confDir, ".05-weft.conflist123456")
	if err := c.write(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(c.confDir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "05-weft.conflist" {
		t.Errorf("the folder has %v, %v", entries, err)
	}
}

// TestConfigurationIsLibcnis: the runtime's own library reads what is written.
func TestConfigurationIsLibcnis(t *testing.T) {
	c := newCNIConfig(t)
	if c.written() {
		t.Error("written before anything was")
	}
	if err := c.write(); err != nil || !c.written() {
		t.Fatalf("written %v, error %v", c.written(), err)
	}
	list, err := libcni.NetworkConfFromFile(filepath.Join(c.confDir, "05-weft.conflist"))
	if err != nil {
		t.Fatal(err)
	}
	if list.Name != "weft" || list.CNIVersion != "1.1.0" || len(list.Plugins) != 1 || list.Plugins[0].Network.Type != "weft-cni" {
		t.Errorf("the runtime reads %+v", list)
	}
}

// TestConfigurationIsNotTouchedWhenItIsThere: a runtime reads it again at each event of its directory.
func TestConfigurationIsNotTouchedWhenItIsThere(t *testing.T) {
	c := newCNIConfig(t)
	if err := c.write(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(c.confDir, "05-weft.conflist")
	old := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	if err := os.Chtimes(name, old, old); err != nil {
		t.Fatal(err)
	}
	next := &cniConfig{socket: c.socket, confDir: c.confDir}
	if err := next.write(); err != nil || !next.written() {
		t.Fatalf("written %v, error %v", next.written(), err)
	}
	if info, err := os.Stat(name); err != nil || !info.ModTime().Equal(old) {
		t.Errorf("the file was written again: %v", err)
	}
	put(t, "{}", name)
	if err := next.write(); err != nil {
		t.Fatal(err)
	}
	content, _ := c.content()
	wantFile(t, string(content), name)
}
