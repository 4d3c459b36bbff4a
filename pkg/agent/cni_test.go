package agent_test

import (
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/weft-network/weft/pkg/cni/cniwire"
)

func TestAddAndDel(t *testing.T) {
	n := readyNode(t)
	web := n.newPod("web", 5)
	n.givePort(web)
	result := n.add(web)

	t.Run("the result is the pod's", func(t *testing.T) {
		pods := result.Interfaces[1]
		if len(result.Interfaces) != 2 || pods.Name != "eth0" || pods.Sandbox != web.netNS || pods.Mac != web.mac().String() ||
			pods.Mtu != 1442 {
			t.Errorf("interfaces are %v", result.Interfaces)
		}
		var got []string
		for _, ip := range result.IPs {
			got = append(got, ip.Address.String()+" via "+ip.Gateway.String())
			if ip.Interface == nil || *ip.Interface != 1 {
				t.Errorf("%v does not belong to the pod's interface", ip)
			}
		}
		for _, route := range result.Routes {
			got = append(got, route.Dst.String()+" via "+route.GW.String())
		}
		want := []string{
			"10.244.1.5/24 via 10.244.1.1", "fd00:10:244:1::5/64 via fd00:10:244:1::1",
			"0.0.0.0/0 via 10.244.1.1", "::/0 via fd00:10:244:1::1",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("addresses and routes (-want +got):\n%s", diff)
		}
	})
	t.Run("Open vSwitch has the record", func(t *testing.T) {
		n.awaitPods(web)
		row := n.awaitInstalled(web)
		want := map[string]string{
			"iface-id": "demo_web", "iface-id-ver": "uid-web", "attached_mac": "0a:58:0a:f4:01:05",
			"sandbox": "sandbox-web", "pod-if-name": "eth0", "ip_addresses": "10.244.1.5,fd00:10:244:1::5",
			"ovn-installed": "true", "weft.dev/unit": "attachment/demo_web",
		}
		got := map[string]string{}
		for key := range want {
			got[key] = row.ExternalIDs[key]
		}
		if diff := cmp.Diff(want, got); diff != "" || row.Name != result.Interfaces[0].Name {
			t.Errorf("Interface %s (-want +got):\n%s", row.Name, diff)
		}
	})
	n.wantTraffic(web)
	if err := n.check(web, result); err != nil {
		t.Errorf("CHECK: %v", err)
	}
	for range 2 {
		n.del(web)
		n.awaitPods()
	}
	if err := n.check(web, result); err == nil || !strings.Contains(err.Error(), "sandbox sandbox-web has no interface eth0") {
		t.Errorf("CHECK after DEL: %v", err)
	}
	n.add(web)
	n.wantTraffic(web)
	n.removeNetNS(web.netNS)
	n.del(web)
	n.awaitPods()
}

func TestDelOfWhatNeverWas(t *testing.T) {
	n := readyNode(t)
	n.del(pod{name: "nobody", container: "sandbox-nobody", netNS: "/run/netns/nobody"})
	nameless := pod{container: "sandbox-nobody"}.request(n, cniwire.Del)
	nameless.Args = cniwire.Args{}
	if _, err := n.send(t.Context(), nameless); err != nil {
		t.Errorf("DEL without a pod's name: %v", err)
	}
}

// A DEL without the pod's name finds the interface by its sandbox.
func TestDelWithoutThePodsName(t *testing.T) {
	n := readyNode(t)
	web, other := n.newPod("web", 5), n.newPod("other", 6)
	n.givePort(web)
	n.givePort(other)
	n.add(web)
	n.add(other)
	req := web.request(n, cniwire.Del)
	req.Args = cniwire.Args{}
	if _, err := n.send(t.Context(), req); err != nil {
		t.Error(err)
	}
	n.awaitPods(other)
}

func TestAddWaitsForThePort(t *testing.T) {
	n := readyNode(t)
	web := n.newPod("web", 5)
	answers, _ := n.startAdd(web)
	n.awaitWait(web, answers, noPort)
	n.givePort(web)
	if a := <-answers; a.err != nil {
		t.Fatal(a.err)
	}
	n.wantTraffic(web)
}

// An ADD must not use the port of an earlier pod of the same name.
func TestAddWaitsForThePortOfThisPod(t *testing.T) {
	n := readyNode(t)
	web := n.newPod("web", 5)
	earlier := web
	earlier.uid, earlier.slot = "uid-of-an-earlier-web", 4
	n.givePort(earlier)
	answers, _ := n.startAdd(web)
	n.awaitWait(web, answers, "its port is still that of an earlier pod")
	n.givePort(web)
	a := <-answers
	if a.err != nil {
		t.Fatal(a.err)
	}
	if got := a.result.IPs[0].Address.IP.String(); got != "10.244.1.5" {
		t.Errorf("address %s", got)
	}
	if got := n.awaitInstalled(web).ExternalIDs["iface-id-ver"]; got != "uid-web" {
		t.Errorf("iface-id-ver %s", got)
	}
}

// An ADD that the runtime cancels leaves nothing behind. The log names the stage that was not reached.
func TestAnAddThatIsGivenUpLeavesNothing(t *testing.T) {
	n := readyNode(t)
	web := n.newPod("web", 5)
	giveUp := func(stage string) {
		t.Helper()
		before := log.length()
		answers, cancel := n.startAdd(web)
		n.awaitWait(web, answers, stage)
		cancel()
		<-answers
		n.until("the log's "+stage, func() error {
			return isTrue(strings.Contains(log.since(before), "port demo_web: "+stage), log.since(before))
		})
		n.awaitPods()
	}
	giveUp(noPort)
	earlier := web
	earlier.uid = "uid-of-an-earlier-web"
	n.givePort(earlier)
	giveUp("its port is still that of an earlier pod (UID uid-of-an-earlier-web, want uid-web)")
	n.ovs.KillController()
	n.givePort(web)
	giveUp("ovn-controller has not claimed it yet")

	n.ovs.RunController()
	n.add(web)
	n.wantTraffic(web)
}

// When an ADD is cancelled, the log has the error in the port.
func TestAddSaysWhatIsWrongWithThePort(t *testing.T) {
	n := readyNode(t)
	web := n.newPod("web", 5)
	n.givePortWith(web, []netip.Addr{netip.MustParseAddr("10.99.0.5")})
	before := log.length()
	answers, cancel := n.startAdd(web)
	const wrong = "address 10.99.0.5 is in none of the node's subnets"
	n.awaitWait(web, answers, wrong)
	cancel()
	n.until("the log", func() error {
		entries := log.since(before)
		return isTrue(strings.Contains(entries, wrong), entries)
	})
	n.awaitPods()
}

// kubelet creates a new sandbox while the runtime has not removed the old one yet. The new sandbox takes over the port.
func TestANewSandboxTakesThePortOver(t *testing.T) {
	n := readyNode(t)
	web := n.newPod("web", 5)
	n.givePort(web)
	first := n.add(web)
	next := web
	next.container = "sandbox-web-2"
	next.netNS = n.newNetNS(next.container)
	second := n.add(next)
	if got := n.awaitInstalled(next).Name; got != second.Interfaces[0].Name {
		t.Errorf("Interface %s", got)
	}
	if err := n.check(web, first); err == nil {
		t.Error("CHECK of the old sandbox succeeds")
	}
	n.awaitPods(next) // C2: the old sandbox's DEL may never come
	n.del(web)
	n.awaitPods(next)
	n.wantTraffic(next)
	if err := n.check(next, second); err != nil {
		t.Errorf("CHECK of the new sandbox: %v", err)
	}
}

// inUse returns the number of bytes in heap objects and stacks after a garbage collection.
func inUse() uint64 {
	runtime.GC()
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	return now.HeapAlloc + now.StackInuse
}

// As many ADDs wait as on a full node after its reboot while the operator cannot assign ports. They must not delay other
// pods. C10: they must need little memory, including the clients' ends of the connections.
func TestPodsThatWaitDoNotHoldUpOthers(t *testing.T) {
	n := readyNode(t)
	web, gone := n.newPod("web", 5), n.newPod("gone", 6)
	n.givePort(web)
	n.givePort(gone)
	n.add(gone)
	before := inUse()
	waiting := map[pod]<-chan answer{}
	for i := range 250 {
		name := fmt.Sprintf("waiting-%d", i)
		p := pod{name: name, uid: "uid-" + name, container: "sandbox-" + name, netNS: "/run/netns/sandbox-web"}
		waiting[p], _ = n.startAdd(p)
	}
	for p, answers := range waiting {
		n.awaitWait(p, answers, noPort)
	}
	if held := int64(inUse()) - int64(before); held > 16<<20 {
		t.Errorf("250 waiting ADDs use %d KiB", held>>10)
	} else {
		t.Logf("250 waiting ADDs use %d KiB", held>>10)
	}
	for p := range waiting {
		n.waits.forget(p.port())
	}
	n.add(web)
	n.wantTraffic(web)
	n.del(gone)
	n.awaitPods(web)
	for p, answers := range waiting {
		n.awaitWait(p, answers, noPort) // again: the binding of web has woken the ADD
	}
}

// CHECK fails after someone has removed the pod's link.
func TestCheckSeesALostLink(t *testing.T) {
	n := readyNode(t)
	web := n.newPod("web", 5)
	n.givePort(web)
	result := n.add(web)
	link, err := netlink.LinkByName(result.Interfaces[0].Name)
	n.must(err)
	n.must(netlink.LinkDel(link))
	if err := n.check(web, result); err == nil {
		t.Error("CHECK succeeds")
	}
	n.add(web) // the runtime may repeat the ADD of the same sandbox
	n.wantTraffic(web)
}

// files returns the number of files that this process has open.
func (n *node) files() int {
	n.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	n.must(err)
	return len(entries)
}

// C6 and C7: no files or goroutines leak. The first rounds create what stays, such as idle connections.
func TestAddAndDelLeakNothing(t *testing.T) {
	n := readyNode(t)
	web := n.newPod("web", 5)
	n.givePort(web)
	rounds := func(many int) {
		t.Helper()
		for i := range many {
			result := n.add(web)
			if err := n.check(web, result); err != nil {
				t.Errorf("CHECK: %v", err)
			}
			if i%2 == 0 {
				n.add(web) // again, as a runtime that lost the reply
			}
			n.del(web)
		}
		n.awaitPods()
	}
	rounds(5)
	files, goroutines := n.files(), runtime.NumGoroutine()
	rounds(40)
	n.until("as many files and goroutines as before", func() error {
		// Two more are tolerated, because unrelated connections open and close.
		if f, g := n.files(), runtime.NumGoroutine(); f > files+2 || g > goroutines+2 {
			return fmt.Errorf("%d files, %d goroutines; before %d and %d", f, g, files, goroutines)
		}
		return nil
	})
}
