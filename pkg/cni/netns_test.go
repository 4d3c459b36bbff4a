package cni

import (
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Work in many namespaces at once needs few threads, which the process keeps for good.
func TestWorkInNamespacesNeedsFewThreads(t *testing.T) {
	ns, err := os.Open(podNS(t))
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	before := threads(t)
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			if err := inNetNS(ns, func() error {
				delay := unix.NsecToTimespec((5 * time.Millisecond).Nanoseconds()) // in the kernel, as under RTNL
				return unix.Nanosleep(&delay, nil)
			}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if grown := threads(t) - before; grown > 2*maxInside {
		t.Errorf("%d threads more, want at most %d", grown, 2*maxInside)
	}
}

// threads counts the threads of this process.
func threads(t *testing.T) int {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return len(tasks)
}
