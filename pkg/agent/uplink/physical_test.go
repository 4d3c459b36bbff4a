package uplink

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

const (
	second       = "eth1"
	secondBridge = "breth1"
)

// plugSecond gives the node a second link without addresses.
func (w *world) plugSecond(isUp bool) {
	w.Helper()
	must(w, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: second, MTU: mtu}, PeerName: "wire1"}))
	w.Cleanup(func() {
		if found, err := netlink.LinkByName(second); err == nil {
			_ = netlink.LinkDel(found)
		}
	})
	if isUp {
		must(w, up("wire1"))
		must(w, up(second))
		w.eventually(func() error { return hasLinkLocal(second) })
	}
}

func hasLinkLocal(name string) error {
	found, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	list, err := netlink.AddrList(found, netlink.FAMILY_V6)
	if err == nil && (len(list) == 0 || list[0].Flags&unix.IFA_F_TENTATIVE != 0) {
		err = errors.New("no link-local address yet")
	}
	return err
}

func physicalRequest(link string) Request {
	return Request{Interface: link, Uplink: networkv1alpha1.UplinkBridge, Physical: true}
}

// A link without addresses moves without any host that answers, and comes back as it was: up or down.
func TestALinkOfAPhysicalNetworkMovesAndComesBack(t *testing.T) {
	for name, isUp := range map[string]bool{"up": true, "down": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.plugSecond(isUp)
			before := w.view(second)
			for range 2 {
				got, err := w.mover().Ensure(context.Background(), physicalRequest(second))
				must(t, err)
				if got.Name != secondBridge || got.Interface != second || !got.Physical || got.Alone {
					t.Fatalf("the bridge is %+v", got)
				}
			}
			if ports := strings.Fields(w.ovs.Ctl("list-ports", secondBridge)); len(ports) != 1 || ports[0] != second {
				t.Errorf("the bridge has ports %v", ports)
			}
			must(t, w.mover().Recover(context.Background()))
			must(t, w.mover().GiveBack(context.Background(), second))
			w.expectGivenBack(before, "after the link was given back")
			if ledgers, err := w.mover().Ledgers(); err != nil || len(ledgers) > 0 {
				t.Errorf("ledgers are left: %v, %v", ledgers, err)
			}
		})
	}
}

// expectGivenBack fails the test unless the second link is as before and its bridge is gone.
func (w *world) expectGivenBack(before []string, when string) {
	w.Helper()
	w.expectCarries(second, before, when)
	if _, err := netlink.LinkByName(secondBridge); err == nil {
		w.Fatalf("%s: link %s is still there", when, secondBridge)
	}
	if left := strings.Fields(w.ovs.Ctl("list-br")); len(left) > 0 {
		w.Fatalf("%s: bridges %v are still in Open vSwitch", when, left)
	}
}

// After each single change, the process and its guard die together. The next start must restore the link.
func TestTheNextStartRestoresAPhysicalLink(t *testing.T) {
	w := newWorld(t)
	w.plugSecond(false)
	before := w.view(second)
	changes := w.run(order{Request: physicalRequest(second)})
	must(t, w.mover().Release(context.Background()))
	for i, point := range changes {
		if point == "ledger "+string(Confirmed) {
			continue
		}
		w.run(order{Request: physicalRequest(second), DieAt: i + 1})
		must(t, w.mover().Recover(context.Background()))
		w.expectGivenBack(before, fmt.Sprintf("%d: killed after %q", i+1, point))
		must(t, folder(w.dir).remove(second))
	}
	t.Logf("%d deaths", len(changes))
}

// A link with addresses is confirmed as the gateway's is: it is refused without an answer, rolled back when the answer
// stops, and otherwise moved with its addresses.
func TestAPhysicalLinkWithAddressesIsConfirmed(t *testing.T) {
	w := newWorld(t)
	before := w.view(nic)
	must(t, w.ns.Do(func(ns.NetNS) error { return dropAddresses(wire, append(gateway, "192.0.2.2/24")...) }))
	_, err := w.mover().Ensure(context.Background(), physicalRequest(nic))
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "could not be verified") {
		t.Errorf("the error is %v", err)
	}
	must(t, w.ns.Do(func(ns.NetNS) error { return addresses(wire, append(gateway, "192.0.2.2/24")...) }))

	cfg := configOf(w.dir, w.ovs.Endpoint(), w.boot)
	cfg.failpoint = func(point string) {
		if point == "eth0 is a port of breth0" {
			must(t, w.ns.Do(func(ns.NetNS) error { return dropAddresses(wire, append(gateway, "192.0.2.2/24")...) }))
		}
	}
	if _, err := New(cfg).Ensure(context.Background(), physicalRequest(nic)); !errors.Is(err, ErrRolledBack) {
		t.Errorf("the error is %v", err)
	}
	must(t, w.ns.Do(func(ns.NetNS) error { return addresses(wire, append(gateway, "192.0.2.2/24")...) }))
	w.expectRestored(before, "after the rollback")
	must(t, w.mover().GiveBack(context.Background(), nic)) // the entry goes, and with it the memory of the rollback

	_, err = w.mover().Ensure(context.Background(), physicalRequest(nic))
	must(t, err)
	w.expectCarries(bridge, before, "after the move")
	must(t, w.answers())
	must(t, w.mover().GiveBack(context.Background(), nic))
	w.expectRestored(before, "after the link was given back")
}
