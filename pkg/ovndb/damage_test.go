package ovndb_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
)

// smallDisk mounts a file system of the given size until the end of the test.
func smallDisk(t *testing.T, bytes int) (dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "weft-disk-")
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("weft-test", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", bytes)); err != nil {
		t.Fatalf("cannot mount a small disk; the test needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := errors.Join(syscall.Unmount(dir, syscall.MNT_DETACH), os.Remove(dir)); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fillDisk uses up the remaining space. free releases it.
func fillDisk(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for chunk := make([]byte, 1<<12); ; {
		if _, err := file.Write(chunk); errors.Is(err, syscall.ENOSPC) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// D1: a full disk, and a database that does not recover when space is available again. A failed write is reported in
// the server's words, and it succeeds soon after space is available.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, 1<<20)
	nb := ovndbtest.StartIn(t, "ovn-nb", dir)
	cfg := quick(nb.Endpoint())
	cfg.Heartbeat, cfg.BlindAfter = 100*time.Millisecond, time.Hour
	e := runWith(t, cfg)
	e.fill(t)
	free := fillDisk(t, dir)
	e.await(t, "the loss", func() bool { return !e.Connected() }) // the heartbeat cannot be written
	err := e.try(portUnit("n1", "later", "u", 40))
	if !ovndb.IsPending(err) {
		t.Errorf("with a full disk: %v, want it pending", err)
	}
	e.await(t, "the server's words", func() bool {
		return e.Failure() != nil && strings.Contains(e.Failure().Error(), "write failed")
	})
	if !ovndb.IsWriteFailure(e.Failure()) {
		t.Errorf("no failure to write: %v", e.Failure())
	}
	free()
	e.await(t, "the connection", e.Connected)
	e.settle(t, portUnit("n1", "later", "u", 40))
	e.whole(t)
	e.again(t, func() { nb.Kill(); nb.Run() }) // the file is complete as well
}

// D1 in a cluster. Others reported members that did not recover when space was available again. Members of OVS 3.5
// recover, and their files are complete afterwards.
func TestClusterWithAFullDisk(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, 4<<20)
	cluster := ovndbtest.StartClusterIn(t, "ovn-nb", 3, dir)
	cfg := quick(cluster.Endpoints()...)
	cfg.BlindAfter = time.Hour
	e := runWith(t, cfg)
	e.fill(t)
	free := fillDisk(t, dir)
	e.await(t, "the loss", func() bool { return !e.Connected() })
	if err := e.try(portUnit("n1", "later", "u", 40)); !ovndb.IsPending(err) {
		t.Errorf("with a full disk: %v, want it pending", err)
	}
	free()
	e.await(t, "the connection", e.Connected)
	e.settle(t, portUnit("n1", "later", "u", 40))
	e.whole(t)
	e.again(t, func() {
		for _, m := range cluster.Members {
			m.Kill()
		}
		for _, m := range cluster.Members {
			m.Run()
		}
	})
}

// D1: a truncated file, as after a crash of the machine. Whatever part the server still reads, the engine restores
// the rest with the same UUIDs and keys.
func TestTruncatedDatabase(t *testing.T) {
	t.Parallel()
	nb := ovndbtest.Start(t, "ovn-nb")
	schemaOnly := len(nb.Copy())
	e := runWith(t, quick(nb.Endpoint()))
	e.fill(t)
	before := dump(nb)
	r := rand.New(rand.NewPCG(1, 1))
	for range 5 {
		var cut int
		e.again(t, func() {
			nb.Kill()
			file := nb.Copy()
			cut = schemaOnly + r.IntN(len(file)-schemaOnly)
			nb.Replace(file[:cut])
			nb.Run()
		})
		if after := dump(nb); after != before {
			t.Errorf("cut after %d bytes, rows differ; before:\n%s\nafter:\n%s", cut, before, after)
		}
	}
}

// D2: all members restart at once. D3: a member is replaced by another under its name and the old one is gone for
// good, or a majority is lost and returns. The engine continues with any member that has a majority.
func TestMembersComeAndGo(t *testing.T) {
	cluster := ovndbtest.StartCluster(t, "ovn-nb", 3)
	e := runWith(t, ovndb.Config{Endpoints: cluster.Endpoints(), Heartbeat: 200 * time.Millisecond, Deadline: 2 * time.Second})
	e.fill(t)
	port := 40
	goesOn := func(what string) {
		t.Helper()
		e.awaitConnected()
		e.settle(t, portUnit("n1", fmt.Sprintf("p%d", port), "u", port))
		port++
		e.whole(t)
		if t.Failed() {
			t.Fatalf("after %s", what)
		}
	}
	for range 2 {
		for _, m := range cluster.Members {
			m.Kill()
		}
		e.await(t, "the loss", func() bool { return !e.Connected() })
		for _, m := range cluster.Members {
			m.Run()
		}
		goesOn("all members restarted")
	}
	for _, m := range cluster.Members {
		m.Replace()
		goesOn("a member was replaced")
	}
	// The member that the engine uses is alone: it responds, but commits nothing.
	cluster.Members[0].Kill()
	cluster.Members[1].Kill()
	e.await(t, "the loss of the majority", func() bool { return !e.Connected() })
	e.await(t, "the reason", func() bool { return e.Failure() != nil && strings.Contains(e.Failure().Error(), "majority") })
	cluster.Members[0].Run()
	goesOn("a majority was lost and is back")
}

// A member that its cluster cannot reach keeps its clients and responds to them. The heartbeat detects it, and the
// engine uses another member.
func TestMemberCutOffFromItsClusterIsLeft(t *testing.T) {
	cluster := ovndbtest.StartCluster(t, "ovn-nb", 3)
	for i := range 2 {
		used := cluster.Members[i]
		endpoints := append([]string{used.Endpoint()}, cluster.Members[2].Endpoint())
		e := runWith(t, ovndb.Config{Endpoints: endpoints, Heartbeat: 200 * time.Millisecond, Deadline: 2 * time.Second})
		e.fill(t)
		began := time.Now()
		e.again(t, used.Isolate)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the other member was used after %s", took)
		}
		e.settle(t, portUnit("n1", fmt.Sprintf("after%d", i), "u", 40+i))
		e.stop()
		used.Kill()
		used.Run()
		used.Await()
	}
}
