package tombstone

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weft-network/weft/pkg/cni/cniwire"
)

func newFolder(t *testing.T) Folder {
	t.Helper()
	return Beside(filepath.Join(t.TempDir(), "weft", "cni.sock"))
}

func of(container string) Tombstone {
	return Tombstone{ContainerID: container, IfName: "eth0",
		Args: cniwire.Args{PodNamespace: "demo", PodName: "web-0", PodUID: "uid-web-0"}}
}

func (f Folder) mustList(t *testing.T) []Tombstone {
	t.Helper()
	found, refused, err := f.List()
	if err != nil || len(refused) != 0 {
		t.Fatal(err, refused)
	}
	return found
}

func TestATombstoneIsReadUnchanged(t *testing.T) {
	f := newFolder(t)
	if found := f.mustList(t); len(found) != 0 {
		t.Errorf("tombstones in an empty folder: %v", found)
	}
	for range 2 { // Put is idempotent
		if err := f.Put(of("c1")); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]Tombstone{of("c1")}, f.mustList(t)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	info, err := os.Stat(f.path)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder: %v, %v", info.Mode(), err)
	}
	for range 2 {
		if err := f.Remove("c1", "eth0"); err != nil {
			t.Error(err)
		}
	}
	if found := f.mustList(t); len(found) != 0 {
		t.Errorf("tombstones left: %v", found)
	}
}

// Failure mode C1: the container and the interface must be the same, and the pod's UID if both sides have it.
func TestATombstoneNamesOneAttachment(t *testing.T) {
	unnamed := Tombstone{ContainerID: "c1", IfName: "eth0"}
	for _, test := range []struct {
		stone                  Tombstone
		container, ifName, uid string
		want                   bool
	}{
		{of("c1"), "c1", "eth0", "uid-web-0", true},
		{of("c1"), "c1", "eth0", "", true},
		{unnamed, "c1", "eth0", "uid-web-0", true},
		{of("c1"), "c2", "eth0", "uid-web-0", false},
		{of("c1"), "c1", "net1", "uid-web-0", false},
		{of("c1"), "c1", "eth0", "uid-of-a-later-web-0", false},
	} {
		if got := test.stone.Names(test.container, test.ifName, test.uid); got != test.want {
			t.Errorf("%+v names %s %s %s: %t", test.stone, test.container, test.ifName, test.uid, got)
		}
	}
}

func TestInvalidNamesAreNotWritten(t *testing.T) {
	f := newFolder(t)
	for _, s := range []Tombstone{
		{ContainerID: "../../etc/passwd", IfName: "eth0"},
		{ContainerID: "", IfName: "eth0"},
		{ContainerID: "c1", IfName: "../eth0"},
		{ContainerID: "c1", IfName: "eth0", Args: cniwire.Args{PodUID: strings.Repeat("x", 5000)}},
	} {
		var coded *cniwire.Error
		if err := f.Put(s); !errors.As(err, &coded) {
			t.Errorf("%.100v: %v", s, err)
		}
	}
	if _, err := os.Stat(f.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was written: %v", err)
	}
}

// Anything in the folder that is not a tombstone is removed, and the target of a link is not touched.
func TestOtherFilesAreRefusedAndRemoved(t *testing.T) {
	f := newFolder(t)
	if err := f.Put(of("good")); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(t.TempDir(), "target")
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(f.path, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("half", `{"containerID":"c`)
	write("empty", "")
	write("long", `{"containerID":"c1","ifName":"eth0"}`+strings.Repeat(" ", maxSize))
	write("misnamed", `{"containerID":"c1","ifName":"eth0"}`)
	write(fileOf("../x", "eth0"), `{"containerID":"../x","ifName":"eth0"}`)
	if err := os.WriteFile(target, []byte(`{"containerID":"c2","ifName":"eth0"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, filepath.Join(f.path, fileOf("c2", "eth0"))); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(f.path, "folder", "in", "it"), 0o700); err != nil {
		t.Fatal(err)
	}
	found, refused, err := f.List()
	if err != nil || len(refused) != 7 || len(found) != 1 || found[0].ContainerID != "good" {
		t.Errorf("found %v, refused %v, %v", found, refused, err)
	}
	if again := f.mustList(t); len(again) != 1 {
		t.Errorf("second List: %v", again)
	}
	if _, err := os.Stat(target); err != nil {
		t.Errorf("the link's target: %v", err)
	}
}

// A process that is killed while it writes leaves a partial file. It is not a tombstone, and it is removed after a
// while.
func TestAPartialFileIsRemovedAfterAWhile(t *testing.T) {
	f := newFolder(t)
	if err := os.MkdirAll(f.path, 0o700); err != nil {
		t.Fatal(err)
	}
	part := filepath.Join(f.path, partPrefix+"1")
	if err := os.WriteFile(part, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if found := f.mustList(t); len(found) != 0 {
		t.Errorf("found %v", found)
	}
	old := time.Now().Add(-2 * partAge)
	if err := os.Chtimes(part, old, old); err != nil {
		t.Fatal(err)
	}
	if _, refused, err := f.List(); err != nil || len(refused) != 1 {
		t.Errorf("refused %v, %v", refused, err)
	}
	if _, err := os.Stat(part); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the partial file is left: %v", err)
	}
}

func TestTheFolderIsBounded(t *testing.T) {
	f := newFolder(t)
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for i := range MaxCount / 8 {
				if err := f.Put(of(fmt.Sprintf("c%d-%d", w, i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	if err := f.Put(of("one-more")); !errors.Is(err, ErrFull) {
		t.Errorf("with %d tombstones, Put of another: %v", len(f.mustList(t)), err)
	}
}

func TestALinkInPlaceOfTheFolderIsNotFollowed(t *testing.T) {
	f := newFolder(t)
	elsewhere := t.TempDir()
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, f.path); err != nil {
		t.Fatal(err)
	}
	if err := f.Put(of("c1")); err == nil {
		t.Error("a tombstone was written through a link")
	}
	if entries, err := os.ReadDir(elsewhere); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
}
