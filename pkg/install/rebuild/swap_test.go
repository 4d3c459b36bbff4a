package rebuild

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/ovn/wire"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
)

// A server with --config-file accepts no databases by command. It must end, and its supervisor restarts it.
func TestSwapUnderASupervisor(t *testing.T) {
	s := startSupervised(t, "ovn-sb", 1)
	fresh, global := freshFile(t, s.dir)
	if err := os.Chmod(s.file, 0o604); err != nil {
		t.Fatal(err)
	}
	live := target{name: wire.Southbound, file: s.file, remote: s.remote(), control: s.control(), start: 20 * time.Second}
	if had, err := live.swap(t.Context(), fresh, "SB_Global", global); err != nil || !had {
		t.Fatalf("swap: %v, %v", had, err)
	}
	if got := number(t, s.remote()); got != "42" {
		t.Errorf("nb_cfg is %q, want the number in the new file", got)
	}
	if info, err := os.Stat(s.file); err != nil || info.Mode().Perm() != 0o604 {
		t.Errorf("the new file has another mode than the old one: %v, %v", info.Mode(), err)
	}
	if _, err := os.Stat(live.previous()); err != nil {
		t.Error(err)
	}
}

// A server with its databases on the command line keeps running, because ovn-ctl does not restart a server that
// exited normally.
func TestSwapInARunningServer(t *testing.T) {
	s := ovndbtest.Start(t, "ovn-sb")
	s.Ctl("init")
	dir := filepath.Dir(strings.TrimPrefix(s.Endpoint(), "unix:"))
	fresh, global := freshFile(t, dir)
	live := target{
		name: wire.Southbound, file: filepath.Join(dir, "db"), remote: s.Endpoint(),
		control: filepath.Join(dir, "ctl"), start: 20 * time.Second,
	}
	if _, err := live.swap(t.Context(), fresh, "SB_Global", global); err != nil {
		t.Fatal(err)
	}
	if got := number(t, s.Endpoint()); got != "42" {
		t.Errorf("nb_cfg is %q, want the number in the new file", got)
	}
	if err := live.restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := number(t, s.Endpoint()); got != "0" {
		t.Errorf("nb_cfg is %q, want the number in the previous file", got)
	}
}

// A file that the server cannot open must not stay in place.
func TestSwapOfADamagedFile(t *testing.T) {
	s := ovndbtest.Start(t, "ovn-sb")
	s.Ctl("init")
	dir := filepath.Dir(strings.TrimPrefix(s.Endpoint(), "unix:"))
	fresh := filepath.Join(dir, "damaged")
	if err := os.WriteFile(fresh, []byte("OVSDB JSON 5 0000000000000000000000000000000000000000\nnope\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	live := target{
		name: wire.Southbound, file: filepath.Join(dir, "db"), remote: s.Endpoint(),
		control: filepath.Join(dir, "ctl"), start: 5 * time.Second,
	}
	if _, err := live.swap(t.Context(), fresh, "SB_Global", "00000000-0000-0000-0000-000000000000"); err == nil {
		t.Error("the swap succeeded")
	}
	if got := number(t, s.Endpoint()); got != "0" {
		t.Errorf("nb_cfg is %q, want the number in the previous file", got)
	}
}

// Without a supervisor the error must name the problem.
func TestSwapWithoutASupervisor(t *testing.T) {
	s := startSupervised(t, "ovn-sb", 0)
	fresh, global := freshFile(t, s.dir)
	live := target{name: wire.Southbound, file: s.file, remote: s.remote(), control: s.control(), start: time.Second}
	_, err := live.swap(t.Context(), fresh, "SB_Global", global)
	if err == nil || !strings.Contains(err.Error(), "check that a supervisor restarts the server") {
		t.Errorf("swap: %v", err)
	}
	if info, err := os.Stat(s.file); err != nil || info.Size() == 0 {
		t.Errorf("the previous file is not in place: %v", err)
	}
}

// A file that no server could open never replaces the new one, which the server opens when its supervisor starts it.
func TestSwapWhileTheServerIsAway(t *testing.T) {
	dir := t.TempDir()
	fresh, global := freshFile(t, dir)
	want, err := os.ReadFile(fresh)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "db")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	live := target{name: wire.Southbound, file: file, remote: "unix:" + filepath.Join(dir, "sock"), control: filepath.Join(dir, "ctl"),
		start: 100 * time.Millisecond}
	if _, err := live.swap(t.Context(), fresh, "SB_Global", global); err == nil || !strings.Contains(err.Error(), "is in place") {
		t.Errorf("swap: %v", err)
	}
	if have, err := os.ReadFile(file); err != nil || !bytes.Equal(have, want) {
		t.Errorf("the new file is not in place: %d bytes, %v", len(have), err)
	}
}
