package uplink

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/cni"
)

// newUserspaceWorld skips the test on the kernel's datapath, which needs no ovs-vswitchd to forward.
func newUserspaceWorld(t *testing.T) *world {
	if datapath() != networkv1alpha1.DatapathNetdev {
		t.Skip("the kernel's datapath forwards without ovs-vswitchd")
	}
	return newWorld(t)
}

// watch runs a Watch with a grace until the test ends, and returns a channel of what it reports.
func (w *world) watch(grace time.Duration) <-chan error {
	cfg := configOf(w.dir, w.ovs.Endpoint(), w.boot)
	cfg.AwayGrace = grace
	reports := make(chan error, 16)
	cfg.Report = func(_, _ string, err error) { reports <- err }
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		New(cfg).Watch(ctx)
		close(ended)
	}()
	w.Cleanup(func() { stop(); <-ended })
	return reports
}

// expectHostUsesLink expects the host to use its link without Open vSwitch.
func (w *world) expectHostUsesLink(before []string, when string) {
	w.Helper()
	w.eventually(func() error { return phaseIs(w.ledger(), Away) })
	w.expectCarries(nic, before, when)
	if diff := cmp.Diff(w.offloads, features(w.T)); diff != "" {
		w.Fatalf("%s: offloads (-want +got):\n%s", when, diff)
	}
	for _, line := range w.view(bridge) {
		if strings.HasPrefix(line, "address") || strings.HasPrefix(line, "route") || strings.HasPrefix(line, "rule") {
			w.Errorf("%s: the bridge still has %s", when, line)
		}
	}
	if changed, err := w.mover().Reguard(); err != nil || changed {
		w.Errorf("%s: Reguard returns %t, %v", when, changed, err)
	}
	w.eventually(w.answers)
}

// expectMovedAs expects the link to be moved as before, with an equal ledger.
func (w *world) expectMovedAs(former *Ledger, before []string, when string) {
	w.Helper()
	w.expectCarries(bridge, before, when)
	w.eventually(w.answers)
	ofMove := cmpopts.IgnoreFields(Ledger{}, "Attempt", "Started", "Deadline")
	anyOrder := cmpopts.SortSlices(func(a, b Message) bool { return a.Text < b.Text }) // the kernel lists the newest IPv6 address first
	if diff := cmp.Diff(former, w.ledger(), ofMove, anyOrder); diff != "" {
		w.Errorf("%s: the ledger (-former +now):\n%s", when, diff)
	}
	if changed, err := w.mover().Reguard(); err != nil || changed {
		w.Errorf("%s: the guard is missing: %t, %v", when, changed, err)
	}
	for _, line := range w.view(nic) {
		if strings.HasPrefix(line, "address") {
			w.Errorf("%s: the link has %s", when, line)
		}
	}
}

func TestWithoutOpenVSwitchTheLinkHasItsAddresses(t *testing.T) {
	for name, test := range map[string]struct{ end, begin func(*world) }{
		"both daemons end": {
			func(w *world) { w.ovs.KillSwitch(); w.ovs.Kill() },
			func(w *world) { w.ovs.Run(); w.ovs.RunSwitch() },
		},
		"both daemons end, and their database is lost": {
			func(w *world) { w.ovs.KillSwitch(); w.ovs.Kill(); w.ovs.Empty() },
			func(w *world) { w.ovs.Run(); w.ovs.Init(); w.ovs.RunSwitch() },
		},
		"both daemons end, and the bridge's link is removed": {
			func(w *world) { w.ovs.KillSwitch(); w.ovs.Kill(); w.removeBridgeLink() },
			func(w *world) { w.ovs.Run(); w.ovs.RunSwitch() },
		},
		"ovs-vswitchd ends": {
			func(w *world) { w.ovs.KillSwitch() }, func(w *world) { w.ovs.RunSwitch() },
		},
		"the database server ends": {
			func(w *world) { w.ovs.Kill() }, func(w *world) { w.ovs.Run() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newUserspaceWorld(t)
			before := w.view(nic)
			w.move()
			former := w.ledger()
			reports := w.watch(time.Second)
			test.end(w)
			w.expectHostUsesLink(before, "without Open vSwitch")
			if err := <-reports; !errors.Is(err, ErrAway) {
				t.Errorf("the mover reports %v", err)
			}
			test.begin(w)
			w.eventually(func() error { _, err := w.mover().Ensure(context.Background(), w.request()); return err })
			w.expectMovedAs(former, before, "with Open vSwitch")
			test.end(w)
			w.expectHostUsesLink(before, "the second time")
			test.begin(w)
		})
	}
}

func (w *world) removeBridgeLink() {
	w.Helper()
	found, err := netlink.LinkByName(bridge)
	must(w, err)
	must(w, netlink.LinkDel(found))
}

// A daemon that kubelet restarts keeps the move.
func TestARestartedOpenVSwitchKeepsTheMove(t *testing.T) {
	w := newUserspaceWorld(t)
	before := w.view(nic)
	w.move()
	former := w.ledger()
	reports := w.watch(patience)
	for range 3 {
		w.ovs.KillSwitch()
		w.ovs.Kill()
		w.ovs.Run()
		w.ovs.RunSwitch()
		w.eventually(w.answers)
	}
	if diff := cmp.Diff(former, w.ledger()); diff != "" {
		t.Errorf("the ledger (-former +now):\n%s", diff)
	}
	w.expectMovedAs(former, before, "after restarts")
	if len(reports) > 0 {
		t.Errorf("the mover reports %v", <-reports)
	}
}

// What the bridge has when Open vSwitch ends goes to the link, and what someone has given the link meanwhile stays there.
func TestTheLinkGetsWhatTheBridgeHas(t *testing.T) {
	w := newUserspaceWorld(t)
	w.move()
	must(t, addresses(bridge, "192.0.2.66/24", "2001:db8::66/64"))
	w.ovs.KillSwitch()
	w.ovs.Kill()
	must(t, addresses(nic, "192.0.2.10/24", "203.0.113.200/32"))
	w.watch(time.Second)
	w.eventually(func() error { return phaseIs(w.ledger(), Away) })
	for _, want := range []string{"192.0.2.10/24", "192.0.2.66/24", "203.0.113.200/32", "2001:db8::66/64", "2001:db8::10/64"} {
		if !slices.ContainsFunc(w.view(nic), func(line string) bool { return strings.HasPrefix(line, "address "+want+" ") }) {
			t.Errorf("the link lacks %s: %q", want, w.view(nic))
		}
	}
	w.eventually(w.answers)
}

// An agent that starts without Open vSwitch, or that died while it gave addresses back, does the same.
func TestAStartWithoutOpenVSwitchGivesTheAddressesBack(t *testing.T) {
	w := newUserspaceWorld(t)
	before := w.view(nic)
	restart := func() {
		w.ovs.Run()
		w.ovs.RunSwitch()
		w.eventually(func() error { _, err := w.mover().Ensure(context.Background(), w.request()); return err })
		w.expectCarries(bridge, before, "with Open vSwitch")
	}
	end := func() { w.ovs.KillSwitch(); w.ovs.Kill() }
	w.move()
	end()
	changes := w.run(order{Undo: true})
	w.expectHostUsesLink(before, "after the start")
	w.run(order{Undo: true}) // another start changes nothing
	w.expectHostUsesLink(before, "after another start")
	restart()
	for i, point := range changes {
		if !strings.HasPrefix(point, "ledger") && !strings.HasPrefix(point, "eth0 carries") {
			continue // each death takes ten seconds
		}
		end()
		w.run(order{Undo: true, DieAt: i + 1})
		w.run(order{Undo: true})
		w.expectHostUsesLink(before, fmt.Sprintf("%d: killed after %q", i+1, point))
		restart()
	}
}

// An ovs-vswitchd that starts after the rows of a bridge are removed does not remove the bridge's link.
func TestABridgeIsRemovedWithoutTheSwitch(t *testing.T) {
	w := newUserspaceWorld(t)
	before := w.view(nic)
	w.move()
	w.ovs.KillSwitch()
	must(t, w.mover().Release(t.Context()))
	w.ovs.RunSwitch()
	w.expectRestored(before, "after the release")
}

// A link that is moved again has its addresses back after a move that ended with its process, and is moved once more.
func TestALinkWhoseSecondMoveEndsIsMovedOnceMore(t *testing.T) {
	w := newUserspaceWorld(t)
	before := w.view(nic)
	w.move()
	w.ovs.KillSwitch()
	w.ovs.Kill()
	w.run(order{Undo: true})
	w.expectHostUsesLink(before, "without Open vSwitch")
	w.ovs.Run()
	w.ovs.RunSwitch()
	w.run(order{DieAt: 5, Request: w.request()})
	w.run(order{Undo: true})
	w.expectHostUsesLink(before, "after the second move")
	if away, err := w.mover().Away(); err != nil || len(away) != 1 {
		t.Errorf("links that have their addresses back: %v, %v", away, err)
	}
	if _, err := w.mover().Ensure(t.Context(), w.request()); err != nil {
		t.Fatal(err)
	}
	w.expectCarries(bridge, before, "after the third move")
}

// A server whose folder was replaced, as by a restart of the host's Open vSwitch, counts as running: this process sees the former folder.
func TestAReplacedFolderIsNoEndOfTheServer(t *testing.T) {
	folder, mounted := filepath.Join(t.TempDir(), "run"), t.TempDir()
	must(t, os.Mkdir(folder, 0o700))
	must(t, unix.Mount(folder, mounted, "", unix.MS_BIND, ""))
	t.Cleanup(func() { must(t, unix.Unmount(mounted, 0)) })
	d := databaseOf("unix:" + filepath.Join(mounted, "db.sock"))
	if d.runs() {
		t.Error("a server without a socket runs")
	}
	must(t, os.Remove(folder))
	if !d.runs() {
		t.Error("in a deleted folder, the server counts as absent")
	}
}

// A link that had its addresses back leaves nothing behind after a boot, and when Weft is removed.
func TestNothingIsLeftOfALinkThatHadItsAddressesBack(t *testing.T) {
	for name, end := range map[string]func(*world){
		"after a boot":  func(w *world) { w.reboot(false); must(w, w.mover().Recover(context.Background())) },
		"after removal": func(w *world) { w.ovs.Run(); w.ovs.RunSwitch(); must(w, w.mover().Release(context.Background())) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newUserspaceWorld(t)
			before := w.view(nic)
			w.move()
			w.watch(time.Second)
			w.ovs.KillSwitch()
			w.ovs.Kill()
			w.expectHostUsesLink(before, "without Open vSwitch")
			if name == "after removal" {
				if err := w.mover().Release(context.Background()); !errors.Is(err, errNoSwitch) {
					t.Errorf("without Open vSwitch, Release returns %v", err)
				}
			}
			end(w)
			w.expectRestored(before, name)
			if l := w.ledger(); l != nil {
				t.Errorf("the ledger is %+v", l)
			}
			must(t, cni.RemoveGuards())
		})
	}
}
