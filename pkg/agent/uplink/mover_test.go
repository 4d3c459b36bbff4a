package uplink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/cni"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
)

// move moves the link and fails the test on an error.
func (w *world) move() Bridge {
	w.Helper()
	got, err := w.mover().Ensure(context.Background(), w.request())
	must(w, err)
	return got
}

// expectRestored fails the test unless the node is as before: it answers, its link has its configuration, and nothing of
// Weft is left.
func (w *world) expectRestored(before []string, when string) {
	w.Helper()
	w.expectCarries(nic, before, when)
	w.eventually(func() error { // after a boot, ovs-vswitchd may make the bridge of rows that it read before they were removed
		if _, err := netlink.LinkByName(bridge); err == nil {
			return fmt.Errorf("%s: link %s is still there", when, bridge)
		}
		return nil
	})
	if diff := cmp.Diff(w.offloads, features(w.T)); diff != "" {
		w.Fatalf("%s: offloads (-want +got):\n%s", when, diff)
	}
	if left := strings.Fields(w.ovs.Ctl("list-br")); len(left) > 0 {
		w.Fatalf("%s: bridges %v are still in Open vSwitch", when, left)
	}
	w.eventually(w.answers)
}

func TestALinkMovesOntoItsBridge(t *testing.T) {
	w := newWorld(t)
	before := w.view(nic)
	must(t, w.answers())
	if got := w.move(); got.Name != bridge || got.Interface != nic {
		t.Errorf("the bridge is %+v", got)
	}
	w.expectCarries(bridge, before, "after the move")
	must(t, w.answers())
	if l := w.ledger(); l.Phase != Confirmed {
		t.Errorf("the ledger says %s", l.Phase)
	}
	found, err := netlink.LinkByName(nic)
	must(t, err)
	if list, err := netlink.AddrList(found, netlink.FAMILY_ALL); err != nil || len(list) > 0 {
		t.Errorf("the link carries %v (%v)", list, err)
	}
	if again := w.move(); again.Name != bridge {
		t.Errorf("the second Ensure returned %+v", again)
	}
	w.expectCarries(bridge, before, "after a second Ensure")
	must(t, w.mover().Recover(context.Background()))
	w.expectCarries(bridge, before, "after the agent's next start")
}

// The userspace datapath reads a link's frames by packet taps, and its guard keeps them from the host's stack.
func TestAFlushedGuardComesBack(t *testing.T) {
	if datapath() != networkv1alpha1.DatapathNetdev {
		t.Skip("the kernel's datapath needs no guards")
	}
	w := newWorld(t)
	w.move()
	m := w.mover()
	reguard := func(want bool) {
		t.Helper()
		changed, err := m.Reguard()
		must(t, err)
		if changed != want {
			t.Errorf("changed is %t, want %t", changed, want)
		}
	}
	reguard(false)
	must(t, cni.RemoveGuards()) // as "nft flush ruleset" does
	reguard(true)
	reguard(false)
	unlock, err := w.mover().lock(context.Background(), lockTimeout) // as another process that restores the link
	must(t, err)
	must(t, cni.RemoveGuards())
	if _, err := m.Reguard(); !errors.Is(err, ErrBusy) {
		t.Errorf("while the link is being restored: %v", err)
	}
	unlock()
	rebooted := New(configOf(w.dir, w.ovs.Endpoint(), "another boot"))
	if changed, err := rebooted.Reguard(); err != nil || changed {
		t.Errorf("after a reboot: %t (%v)", changed, err)
	}
	reguard(true)
	must(t, m.Release(context.Background()))
	reguard(false)
}

func TestReleaseRestoresTheLink(t *testing.T) {
	w := newWorld(t)
	before := w.view(nic)
	w.move()
	must(t, addresses(bridge, "192.0.2.12/24")) // as the host's administrator may do
	must(t, w.mover().Release(context.Background()))
	must(t, dropAddresses(nic, "192.0.2.12/24"))
	w.expectRestored(before, "after the release")
	if l := w.ledger(); l != nil {
		t.Errorf("the ledger is still there: %+v", l)
	}
	for range 2 {
		if left, err := os.ReadDir(w.dir); err != nil || len(left) > 0 {
			t.Errorf("files are left: %v (%v)", left, err)
		}
		must(t, w.mover().Release(context.Background())) // Release may be repeated
	}
}

// ovs-vswitchd takes back the promiscuous mode of a link only if it has set it since its own start. A release restores the mode
// that the link had, also after a restart of ovs-vswitchd.
func TestReleaseRestoresThePromiscuousMode(t *testing.T) {
	for _, was := range []bool{false, true} {
		t.Run(fmt.Sprint(was), func(t *testing.T) {
			w := newWorld(t)
			found, err := netlink.LinkByName(nic)
			must(t, err)
			if was {
				must(t, netlink.SetPromiscOn(found))
			}
			w.move()
			w.ovs.KillSwitch()
			w.ovs.RunSwitch()
			must(t, w.mover().Release(context.Background()))
			w.eventually(func() error {
				found, err := netlink.LinkByName(nic)
				if err == nil && (found.Attrs().RawFlags&unix.IFF_PROMISC != 0) != was {
					err = fmt.Errorf("the link is promiscuous: %t, before it was: %t", !was, was)
				}
				return err
			})
		})
	}
}

// After each step of a move, the process dies, and the guard must restore the node.
func TestTheGuardUndoesAMoveWhoseProcessDied(t *testing.T) {
	w := newWorld(t)
	before := w.view(nic)
	ends := []string{"ledger " + string(Moving), "ledger " + string(Confirmed)}
	s, err := takeSnapshot(nic, datapath() == networkv1alpha1.DatapathNetdev)
	must(t, err)
	for _, step := range Move(s, Target{Bridge: bridge, Datapath: datapath(), Uplink: networkv1alpha1.UplinkBridge}) {
		ends = append(ends, step.String())
	}
	changes := w.run(order{Guard: true})
	must(t, w.mover().Release(context.Background()))
	deaths := 0
	for i, point := range changes {
		if !slices.Contains(ends, point) {
			continue
		}
		deaths++
		w.run(order{Guard: true, DieAt: i + 1})
		if point == "ledger "+string(Confirmed) {
			w.expectCarries(bridge, before, "after "+point)
			must(t, w.answers())
			must(t, w.mover().Release(context.Background()))
			continue
		}
		if i > 0 { // the guard starts after the first change, which writes the ledger
			w.eventually(func() error { return phaseIs(w.ledger(), RolledBack) })
		} else {
			must(t, w.mover().Recover(context.Background()))
		}
		w.expectRestored(before, fmt.Sprintf("%d: killed after %q", i+1, point))
		must(t, folder(w.dir).remove(nic))
	}
	if deaths < len(ends) {
		t.Errorf("%d deaths for %q", deaths, ends)
	}
}

func phaseIs(l *Ledger, want Phase) error {
	if l == nil || l.Phase != want {
		return fmt.Errorf("the ledger is %+v; want phase %s", l, want)
	}
	return nil
}

// After each single change, the process and its guard die together, as they do with their container. The next start must
// restore the node.
func TestTheNextStartUndoesAMoveWhoseProcessAndGuardDied(t *testing.T) {
	w := newWorld(t)
	before := w.view(nic)
	changes := w.run(order{})
	must(t, w.mover().Release(context.Background()))
	for i, point := range changes {
		w.run(order{DieAt: i + 1})
		must(t, w.mover().Recover(context.Background()))
		if point == "ledger "+string(Confirmed) {
			w.expectCarries(bridge, before, "after "+point)
			must(t, w.mover().Release(context.Background()))
			continue
		}
		must(t, phaseIs(w.ledger(), RolledBack))
		w.expectRestored(before, fmt.Sprintf("%d: killed after %q", i+1, point))
		must(t, folder(w.dir).remove(nic))
	}
	t.Logf("%d deaths", len(changes))
}

// The guard does not wait for a process that hangs with the lock. That process must not change anything when it
// continues.
func TestTheGuardUndoesAMoveThatHangs(t *testing.T) {
	w := newWorld(t)
	before := w.view(nic)
	changes := w.run(order{})
	must(t, w.mover().Release(context.Background()))
	child := w.child(order{Guard: true, StopAt: slices.Index(changes, "eth0 carries 0 addresses") + 1})
	must(t, child.Start())
	w.eventually(func() error { return phaseIs(w.ledger(), RolledBack) })
	w.expectRestored(before, "after the guard has undone the move")
	if l := w.ledger(); l.Reason != "the move was not confirmed in time" {
		t.Errorf("the reason is %q", l.Reason)
	}
	must(t, child.Process.Signal(unix.SIGCONT))
	if err := child.Wait(); err == nil {
		t.Error("the move succeeded after its deadline")
	}
	w.expectRestored(before, "after the stopped process has ended")
	must(t, phaseIs(w.ledger(), RolledBack))
}

func TestASignalDuringAMoveUndoesIt(t *testing.T) {
	w := newWorld(t)
	before := w.view(nic)
	ctx, signal := context.WithCancel(context.Background())
	cfg := configOf(w.dir, w.ovs.Endpoint(), w.boot)
	cfg.failpoint = func(point string) {
		if point == "eth0 carries 0 addresses" {
			signal()
		}
	}
	if _, err := New(cfg).Ensure(ctx, w.request()); !errors.Is(err, ErrRolledBack) || !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	w.expectRestored(before, "after the signal")
}

// After each change of an undoing, the process dies, and the next Recover must complete the undoing.
func TestUndoingMayDieAnywhere(t *testing.T) {
	w := newWorld(t)
	before := w.view(nic)
	moved := w.run(order{})
	must(t, w.mover().Release(context.Background()))
	half := len(moved) - 1 // the link is moved but not confirmed
	w.run(order{DieAt: half})
	changes := w.run(order{Undo: true})
	must(t, folder(w.dir).remove(nic))
	for i, point := range changes {
		w.run(order{DieAt: half})
		w.run(order{Undo: true, DieAt: i + 1})
		must(t, w.mover().Recover(context.Background()))
		w.expectRestored(before, fmt.Sprintf("%d: undoing was killed after %q", i+1, point))
		must(t, folder(w.dir).remove(nic))
	}
	t.Logf("%d deaths", len(changes))
}

func TestAMoveThatCutsOffTheNodeIsRolledBack(t *testing.T) {
	w := newWorld(t)
	before := w.view(nic)
	cfg := configOf(w.dir, w.ovs.Endpoint(), w.boot)
	cfg.failpoint = func(point string) {
		if point == "eth0 is a port of breth0" { // from now on, no target answers
			must(t, w.ns.Do(func(ns.NetNS) error { return dropAddresses(wire, append(gateway, "192.0.2.2/24")...) }))
		}
	}
	var reported error
	cfg.Report = func(_, _ string, err error) { reported = err }
	_, err := New(cfg).Ensure(context.Background(), w.request())
	for _, target := range []string{"gateway 192.0.2.1", "API server 192.0.2.2:6443"} {
		if !errors.Is(err, ErrRolledBack) || !strings.Contains(err.Error(), target) {
			t.Errorf("the error is %v, want %s", err, target)
		}
	}
	if !errors.Is(reported, ErrRolledBack) {
		t.Errorf("the mover reported %v", reported)
	}
	w.expectCarries(nic, before, "before another call")
	must(t, w.ns.Do(func(ns.NetNS) error { return addresses(wire, append(gateway, "192.0.2.2/24")...) }))
	w.expectRestored(before, "after the rollback")

	_, err = w.mover().Ensure(context.Background(), w.request())
	if !errors.Is(err, ErrRolledBack) || !strings.Contains(err.Error(), "gateway 192.0.2.1") {
		t.Errorf("the same request returns %v, want the reason of the rollback without another move", err)
	}
	byName := w.request()
	byName.Interface = nic
	if _, err := w.mover().Ensure(context.Background(), byName); !errors.Is(err, ErrRolledBack) {
		t.Errorf("the same request by the link's name returns %v", err)
	}
	other := w.request()
	other.NextHops = addrs("192.0.2.1")
	if _, err := w.mover().Ensure(context.Background(), other); err != nil {
		t.Errorf("another request returns %v", err)
	}
}

// dropAddresses removes addresses from a link, the last one first, because with the first address of a subnet the kernel
// also removes the others.
func dropAddresses(name string, list ...string) error {
	found, err := netlink.LinkByName(name)
	for _, text := range slices.Backward(list) {
		if err != nil {
			return err
		}
		var address *netlink.Addr
		if address, err = netlink.ParseAddr(text); err == nil {
			err = netlink.AddrDel(found, address)
		}
	}
	return err
}

// reboot removes the links, changes the boot ID and configures the host again.
func (w *world) reboot(databaseLost bool) {
	w.Helper()
	w.ovs.KillSwitch()
	w.ovs.Kill()
	w.ovs.RemoveDatapath()
	w.unplug()
	w.boot += "'"
	w.plug()
	if databaseLost {
		w.ovs.Empty()
	}
	w.ovs.Run()
	if databaseLost {
		w.ovs.Init()
	}
	w.ovs.RunSwitch()
}

func TestAfterAPowerCutTheNodeIsMovedAgain(t *testing.T) {
	for name, lost := range map[string]bool{"the database is kept": false, "the database is lost": true} {
		for _, phase := range []string{"confirmed", "unconfirmed"} {
			t.Run(phase+", "+name, func(t *testing.T) {
				w := newWorld(t)
				before := w.view(nic)
				if phase == "confirmed" {
					w.move()
				} else {
					moved := w.run(order{})
					must(t, w.mover().Release(context.Background()))
					w.run(order{DieAt: len(moved) - 1})
				}
				w.reboot(lost)
				must(t, w.mover().Recover(context.Background()))
				w.expectRestored(before, "after the boot")
				w.move()
				w.expectCarries(bridge, before, "after the second move")
				must(t, w.answers())
			})
		}
	}
}

// A switch that died leaves the links of the userspace datapath, and a successor without its database removes none.
func TestABridgeThatIsLostWithoutABootIsMadeAgain(t *testing.T) {
	for name, lose := range map[string]func(*world){
		"by a command": func(w *world) {
			w.ovs.Ctl("del-br", bridge)
			must(w, awaitLink(w.Context(), bridge, false))
		},
		"with the database, under a switch that died": func(w *world) {
			w.ovs.KillSwitch()
			w.ovs.Kill()
			w.ovs.Empty()
			w.ovs.Run()
			w.ovs.Init()
			w.ovs.RunSwitch()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			before := w.view(nic)
			w.move()
			lose(w)
			must(t, w.mover().Recover(context.Background()))
			w.expectRestored(before, "after Recover")
			w.move()
			w.expectCarries(bridge, before, "after the second move")
			must(t, w.answers())
		})
	}
}

func TestARecreatedBridgeLinkGetsItsAddressesAgain(t *testing.T) {
	w := newWorld(t)
	before := w.view(nic)
	w.move()
	must(t, (&host{failpoint: func(string) {}}).carry(bridge, Layer3{}))
	must(t, w.mover().Recover(context.Background()))
	w.expectCarries(bridge, before, "after Recover")
	must(t, w.answers())
}

// Without Open vSwitch, Recover restores the host's side. It removes the rows when Open vSwitch answers again. On the kernel's
// datapath, the link's frames stay with Open vSwitch until then.
func TestUndoingNeedsNoOpenVSwitch(t *testing.T) {
	w := newWorld(t)
	before := w.view(nic)
	moved := w.run(order{})
	must(t, w.mover().Release(context.Background()))
	w.run(order{DieAt: len(moved) - 1})
	w.ovs.KillSwitch()
	w.ovs.Kill()
	if err := w.mover().Recover(context.Background()); !errors.Is(err, errNoSwitch) {
		t.Errorf("the error is %v", err)
	}
	w.expectCarries(nic, before, "after Recover without Open vSwitch")
	if ovndbtest.OnKernel(t) {
		if err := w.answers(); err == nil {
			t.Error("the link answers, whose frames the kernel's datapath has")
		}
	} else {
		w.eventually(w.answers)
	}
	w.ovs.Run()
	w.ovs.RunSwitch()
	must(t, w.mover().Recover(context.Background()))
	w.expectRestored(before, "after Recover with Open vSwitch")
	w.eventually(w.answers)
}

func TestAForeignBridgeIsUsedUnchanged(t *testing.T) {
	w := newWorld(t)
	w.ovs.Ctl("add-br", "br-ex", "--", "set", "Bridge", "br-ex", "datapath_type="+ovndbtest.Datapath(w),
		"--", "add-port", "br-ex", nic)
	must(t, awaitLink(t.Context(), "br-ex", true))
	before := w.view(nic)
	req := w.request()
	req.Interface = "br-ex"
	got, err := w.mover().Ensure(context.Background(), req)
	must(t, err)
	if got.Name != "br-ex" {
		t.Errorf("the bridge is %+v", got)
	}
	req.Interface = nic
	_, err = w.mover().Ensure(context.Background(), req)
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "port of an Open vSwitch bridge") {
		t.Errorf("for the port's name, Ensure returns %v", err)
	}
	w.expectCarries(nic, before, "after the refusal")
	if l := w.ledger(); l != nil {
		t.Errorf("a ledger exists: %+v", l)
	}
}

func TestUplinkInterfaceTakesALinkOfItsOwn(t *testing.T) {
	w := newWorld(t)
	req := Request{Interface: nic, Uplink: networkv1alpha1.UplinkInterface}
	_, err := w.mover().Ensure(context.Background(), req)
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "default route") {
		t.Errorf("with the default route on it: %v", err)
	}
	found, err := netlink.LinkByName(nic)
	must(t, err)
	for _, via := range gateway {
		hop, _, _ := net.ParseCIDR(via)
		must(t, netlink.RouteDel(&netlink.Route{LinkIndex: found.Attrs().Index, Gw: hop, Priority: 100, Protocol: 4}))
	}
	withNode := req
	withNode.NodeAddresses = addrs(node...)
	_, err = w.mover().Ensure(context.Background(), withNode)
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "is the Node's address") {
		t.Errorf("with the Node's address on it: %v", err)
	}
	withAPI := req
	withAPI.APIServer = w.request().APIServer
	_, err = w.mover().Ensure(context.Background(), withAPI)
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "API server") {
		t.Errorf("with the API server behind it: %v", err)
	}
	before := w.view(nic)
	got, err := w.mover().Ensure(context.Background(), req)
	must(t, err)
	const want = "[192.0.2.10/24 198.51.100.5/32 192.0.2.11/24 2001:db8::11/128 2001:db8::10/64]"
	if got.Name != bridge || fmt.Sprint(got.Addresses) != want {
		t.Errorf("the bridge is %+v", got)
	}
	for _, name := range []string{nic, bridge} {
		for _, line := range w.view(name) {
			if strings.HasPrefix(line, "address") || strings.HasPrefix(line, "route") {
				t.Errorf("%s has %s", name, line)
			}
		}
	}
	again, err := w.mover().Ensure(context.Background(), req)
	must(t, err)
	if diff := cmp.Diff(fmt.Sprint(got), fmt.Sprint(again)); diff != "" {
		t.Errorf("the second Ensure differs (-first +second):\n%s", diff)
	}
	must(t, w.mover().Release(context.Background()))
	w.expectRestored(before, "after the release")
}

func TestUnsuitableLinksAreRefused(t *testing.T) {
	w := newWorld(t)
	found, err := netlink.LinkByName(nic)
	must(t, err)
	before := w.view(nic)
	index := found.Attrs().Index
	run := t.TempDir()
	write := func(path, text string) {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(run, path)), 0o755))
		must(t, os.WriteFile(filepath.Join(run, path), []byte(text), 0o644))
	}
	cfg := configOf(w.dir, w.ovs.Endpoint(), w.boot)
	cfg.HostRun = run
	expect := func(text string) {
		t.Helper()
		_, err := New(cfg).Ensure(context.Background(), w.request())
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), text) {
			t.Errorf("the error is %v; want %q", err, text)
		}
	}
	networkd, manager := fmt.Sprintf("systemd/netif/links/%d", index), fmt.Sprintf("NetworkManager/devices/%d", index)
	write(networkd, "ADMIN_STATE=configured\nNETWORK_FILE=/run/systemd/network/10-netplan.network\n")
	expect("systemd-networkd manages eth0")
	write(networkd, "ADMIN_STATE=unmanaged\n")
	write(manager, "[device]\nmanaged=true\nconnection-uuid=1b2c\n")
	expect("NetworkManager manages eth0")
	write(manager, "[device]\nmanaged=false\n")

	above := &netlink.Macvlan{LinkAttrs: netlink.LinkAttrs{Name: "mv0", ParentIndex: index}, Mode: netlink.MACVLAN_MODE_BRIDGE}
	must(t, netlink.LinkAdd(above))
	expect("stacked on eth0")
	must(t, netlink.LinkDel(above))

	lease, err := netlink.ParseAddr("192.0.2.99/24")
	must(t, err)
	lease.ValidLft, lease.PreferedLft = 3600, 3600
	must(t, netlink.AddrAdd(found, lease))
	expect("a DHCP client renews it")
	must(t, netlink.AddrDel(found, lease))

	w.expectCarries(nic, before, "after the refusals")
	if l := w.ledger(); l != nil {
		t.Errorf("a ledger exists: %+v", l)
	}
	_, err = New(cfg).Ensure(context.Background(), w.request())
	must(t, err)
}

func TestALinkWithoutAnAnsweringTargetIsRefused(t *testing.T) {
	w := newWorld(t)
	must(t, w.ns.Do(func(ns.NetNS) error { return dropAddresses(wire, append(gateway, "192.0.2.2/24")...) }))
	before := w.view(nic)
	_, err := w.mover().Ensure(context.Background(), w.request())
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "could not be verified") {
		t.Errorf("the error is %v", err)
	}
	w.expectCarries(nic, before, "after the refusal")
}
