package cni

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
)

func TestDetachRemovesBothEnds(t *testing.T) {
	want := web(podNS(t))
	want.IngressGuard = true
	mustAttach(t, want)
	if err := Detach(want.ContainerID, want.IfName); err != nil {
		t.Fatal(err)
	}
	assertHostLinks(t)
	assertGuards(t)
	inPod(t, want.NetNS, func(pod *netlink.Handle) error {
		if _, err := pod.LinkByName("eth0"); !isNotFound(err) {
			t.Errorf("the pod's end: %v", err)
		}
		return nil
	})
}

func TestDetachOfAMissingInterface(t *testing.T) {
	needRoot(t)
	for range 2 {
		if err := Detach("absent", "eth0"); err != nil {
			t.Error(err)
		}
	}
}

func TestDetachAfterTheNamespace(t *testing.T) {
	want := web(podNS(t))
	want.IngressGuard = true
	mustAttach(t, want)
	endNS(t, want.NetNS)
	if err := Detach(want.ContainerID, want.IfName); err != nil {
		t.Error(err)
	}
	assertHostLinks(t)
	assertGuards(t)
}

func TestListReturnsTheOwners(t *testing.T) {
	first, second := web(podNS(t)), web(podNS(t))
	second.ContainerID, second.IfName = "fedcba", "net1"
	a, b := mustAttach(t, first), mustAttach(t, second)
	got, err := List()
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(got, func(x, y HostLink) int { return x.Index - y.Index })
	expected := []HostLink{
		{Name: a.HostName, Index: a.HostIndex, ContainerID: container, IfName: "eth0"},
		{Name: b.HostName, Index: b.HostIndex, ContainerID: "fedcba", IfName: "net1"},
	}
	slices.SortFunc(expected, func(x, y HostLink) int { return x.Index - y.Index })
	if diff := cmp.Diff(expected, got); diff != "" {
		t.Errorf("List returned (-want +got):\n%s", diff)
	}
}

func TestAttachAndDetachLeakNothing(t *testing.T) {
	want := dualStack(podNS(t))
	want.DisableTxOffload, want.IngressGuard = true, true
	cycle := func() {
		if _, err := Attach(want); err != nil {
			t.Fatal(err)
		}
		if err := Detach(want.ContainerID, want.IfName); err != nil {
			t.Fatal(err)
		}
	}
	cycle() // opens the files that the runtime keeps open
	before := openFiles(t)
	for range 200 {
		cycle()
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d open files after 200 ADD and DEL, %d before", after, before)
	}
	assertHostLinks(t)
	assertGuards(t)
}

// After a reboot all pods of a node are attached at once.
func TestManyAtOnce(t *testing.T) {
	needRoot(t)
	var wants []PodInterface
	for n := range 40 {
		want := dualStack(podNS(t))
		want.ContainerID = fmt.Sprintf("container%d", n)
		want.DisableTxOffload, want.IngressGuard = true, true
		wants = append(wants, want)
	}
	atOnce(t, wants, func(want PodInterface) error {
		_, err := Attach(want)
		return err
	})
	var names []string
	for _, want := range wants {
		names = append(names, HostName(want.ContainerID, want.IfName))
	}
	assertHostLinks(t, names...)
	assertGuards(t, names...)
	atOnce(t, wants, func(want PodInterface) error { return Detach(want.ContainerID, want.IfName) })
	assertHostLinks(t)
	assertGuards(t)
}

func atOnce(t *testing.T, wants []PodInterface, do func(PodInterface) error) {
	t.Helper()
	var all sync.WaitGroup
	for _, want := range wants {
		all.Go(func() {
			if err := do(want); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// A failed Attach opens and closes files on another path.
func TestFailedAttachLeaksNothing(t *testing.T) {
	want := web(podNS(t))
	want.Addresses = append(want.Addresses, want.Addresses[0])
	fail := func() {
		if _, err := Attach(want); err == nil {
			t.Fatal("Attach with a duplicate address succeeds")
		}
		notNS := want
		notNS.NetNS = "/proc/self/ns/mnt"
		if _, err := Attach(notNS); err == nil {
			t.Fatal("Attach in a mount namespace succeeds")
		}
	}
	fail()
	before := openFiles(t)
	for range 50 {
		fail()
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d open files after 50 failures, %d before", after, before)
	}
}

func openFiles(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestInNetNSComesBack(t *testing.T) {
	path := podNS(t)
	own := currentNS(t)
	for range 20 {
		inPod(t, path, func(*netlink.Handle) error {
			if got := currentNS(t); got == own {
				t.Error("not in the pod's namespace")
			}
			return nil
		})
		if got := currentNS(t); got != own {
			t.Fatalf("in namespace %s after inNetNS, want %s", got, own)
		}
	}
}

func currentNS(t testing.TB) string {
	t.Helper()
	ns, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

func BenchmarkAttachDetach(b *testing.B) {
	for name, change := range map[string]func(PodInterface) PodInterface{
		"IPv4":      func(p PodInterface) PodInterface { return p },
		"dual":      func(p PodInterface) PodInterface { return dualStack(p.NetNS) },
		"userspace": func(p PodInterface) PodInterface { p.DisableTxOffload, p.IngressGuard = true, true; return p },
	} {
		b.Run(name, func(b *testing.B) {
			want := change(web(podNS(b)))
			for i := 0; b.Loop(); i++ {
				want.ContainerID = fmt.Sprintf("container%d", i)
				if _, err := Attach(want); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := Detach(want.ContainerID, want.IfName); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}
