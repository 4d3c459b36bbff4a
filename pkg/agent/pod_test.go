package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	types100 "github.com/containernetworking/cni/pkg/types/100"
	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/pkg/cni/cniwire"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/topology"
)

// pod is a pod with one sandbox.
type pod struct {
	name, uid string
	slot      int // of its port; also the last part of its addresses
	container string
	netNS     string
}

// newPod creates a network namespace for a pod, without a port.
func (n *node) newPod(name string, slot int) pod {
	n.Helper()
	p := pod{name: name, uid: "uid-" + name, slot: slot, container: "sandbox-" + name}
	p.netNS = n.newNetNS(p.container)
	return p
}

// newNetNS creates a network namespace as a runtime does, and removes it after the test.
func (n *node) newNetNS(name string) string {
	n.Helper()
	path := filepath.Join("/run/netns", name)
	n.must(os.WriteFile(path, nil, 0o400))
	n.must(onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		return unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
	}))
	n.Cleanup(func() { n.removeNetNS(path) })
	return path
}

// removeNetNS removes a namespace. It ignores a missing one.
func (n *node) removeNetNS(path string) {
	_ = unix.Unmount(path, unix.MNT_DETACH)
	_ = os.Remove(path)
}

// inNetNS calls do in a namespace.
func inNetNS(path string, do func() error) error {
	ns, err := os.Open(path)
	if err != nil {
		return err
	}
	defer ns.Close()
	return onThread(func() error {
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		return do()
	})
}

// onThread calls do on a thread that may change its network namespace, and restores the thread's namespace. The thread
// must not end, because that would end the processes that it started (Pdeathsig).
func onThread(do func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		own, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			result <- err
			return
		}
		defer own.Close()
		err = do()
		if back := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); back == nil {
			runtime.UnlockOSThread()
		}
		result <- err
	}()
	return <-result
}

func (p pod) addresses() []netip.Addr {
	return []netip.Addr{
		netip.MustParseAddr(fmt.Sprintf("10.244.1.%d", p.slot)), netip.MustParseAddr(fmt.Sprintf("fd00:10:244:1::%x", p.slot)),
	}
}

func (p pod) mac() net.HardwareAddr { return net.HardwareAddr{0x0a, 0x58, 10, 244, 1, byte(p.slot)} }

func (p pod) port() string { return names.PodPort(names.DefaultNetwork, "demo", p.name) }

// givePort writes the rows of a pod, as the operator does.
func (n *node) givePort(p pod) { n.Helper(); n.givePortWith(p, p.addresses()) }

func (n *node) givePortWith(p pod, addresses []netip.Addr) {
	n.Helper()
	n.apply(topology.PodUnit(topology.Pod{
		Namespace: "demo", Name: p.name, UID: p.uid, Node: nodeName, Chassis: n.status().Chassis,
		Addresses: addresses, MAC: p.mac(), Slot: p.slot,
	}))
}

func (p pod) request(n *node, command cniwire.Command) cniwire.Request {
	return cniwire.Request{
		Version: cniwire.Version, Command: command, ContainerID: p.container, NetNS: p.netNS, IfName: "eth0",
		Args:   cniwire.Args{PodNamespace: "demo", PodName: p.name, PodUID: p.uid},
		Config: json.RawMessage(fmt.Sprintf(`{"cniVersion":"1.1.0","name":"weft","type":"weft-cni","socket":%q}`, n.socket())),
	}
}

// send sends a request to the agent and returns its result.
func (n *node) send(ctx context.Context, req cniwire.Request) (json.RawMessage, error) {
	resp, err := cniwire.Do(ctx, n.socket(), req)
	switch {
	case err != nil:
		return nil, err
	case resp.Error != nil:
		return nil, resp.Error
	}
	return resp.Result, nil
}

// answer is the outcome of an ADD.
type answer struct {
	result *types100.Result
	err    error
}

// startAdd sends an ADD. cancel ends the request as a runtime does that stops waiting.
func (n *node) startAdd(p pod) (answers <-chan answer, cancel context.CancelFunc) {
	n.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	n.Cleanup(cancel)
	n.waits.forget(p.port())
	done := make(chan answer, 1)
	go func() {
		raw, err := n.send(ctx, p.request(n, cniwire.Add))
		a := answer{err: err}
		if err == nil {
			a.result = &types100.Result{}
			a.err = json.Unmarshal(raw, a.result)
		}
		done <- a
	}()
	return done, cancel
}

// add sends an ADD that must succeed.
func (n *node) add(p pod) *types100.Result {
	n.Helper()
	answers, _ := n.startAdd(p)
	a := <-answers
	if a.err != nil {
		n.Fatalf("ADD of %s: %v", p.name, a.err)
	}
	return a.result
}

// del sends a DEL that must succeed.
func (n *node) del(p pod) {
	n.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := n.send(ctx, p.request(n, cniwire.Del)); err != nil {
		n.Errorf("DEL of %s: %v", p.name, err)
	}
}

// check sends a CHECK and returns its error.
func (n *node) check(p pod, result *types100.Result) error {
	n.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req := p.request(n, cniwire.Check)
	previous, err := json.Marshal(result)
	n.must(err)
	req.Config = json.RawMessage(fmt.Sprintf(
		`{"cniVersion":"1.1.0","name":"weft","type":"weft-cni","socket":%q,"prevResult":%s}`, n.socket(), previous))
	_, err = n.send(ctx, req)
	return err
}

// ready sends STATUS, whose error is the reason why the agent does not serve ADD.
func (n *node) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := n.send(ctx, pod{}.request(n, cniwire.Status))
	return err
}

// interfaces returns the pods' rows in Open vSwitch, by logical port.
func (n *node) interfaces() map[string]*vswitchdb.Interface {
	found := map[string]*vswitchdb.Interface{}
	for _, row := range ovndb.List(n.rows, func(i *vswitchdb.Interface) bool { return i.ExternalIDs["sandbox"] != "" }) {
		found[row.ExternalIDs["iface-id"]] = row
	}
	return found
}

// hostLinks returns the names of the host's ends of pods' links.
func (n *node) hostLinks() (found []string) {
	n.Helper()
	links, err := linkList()
	n.must(err)
	for _, link := range links {
		if strings.HasPrefix(link.Attrs().Name, "weft") {
			found = append(found, link.Attrs().Name)
		}
	}
	return found
}

// awaitInstalled waits until the pod's row has ovn-controller's ovn-installed mark.
func (n *node) awaitInstalled(p pod) (row *vswitchdb.Interface) {
	n.Helper()
	n.until("the row of "+p.name, func() error {
		row = n.interfaces()[p.port()]
		installed := row != nil && row.ExternalIDs["sandbox"] == p.container && row.ExternalIDs["ovn-installed"] == "true"
		return isTrue(installed, fmt.Sprint(row))
	})
	return row
}

// awaitPods waits until exactly these pods have an interface.
func (n *node) awaitPods(want ...pod) {
	n.Helper()
	n.until("interfaces of pods", func() error {
		have, links := n.interfaces(), n.hostLinks()
		if len(have) != len(want) || len(links) != len(want) {
			return fmt.Errorf("%d rows, links %v, want %d of each", len(have), links, len(want))
		}
		for _, p := range want {
			if row := have[p.port()]; row == nil || row.ExternalIDs["sandbox"] != p.container {
				return fmt.Errorf("the row of %s is %v", p.name, row)
			}
		}
		return n.haveCopies(want...)
	})
}

// haveCopies returns nil if exactly the pods have a copy of the agent's record.
func (n *node) haveCopies(want ...pod) error {
	files, err := filepath.Glob(filepath.Join(filepath.Dir(n.socket()), "attachments", "*"))
	n.must(err)
	if len(files) != len(want) {
		return fmt.Errorf("copies of the record: %v, want %d", files, len(want))
	}
	for _, p := range want {
		if !slices.ContainsFunc(files, func(f string) bool { return strings.HasPrefix(filepath.Base(f), p.container+"@") }) {
			return fmt.Errorf("copies of the record: %v, want that of %s", files, p.container)
		}
	}
	return nil
}

// wantTraffic waits until the host can exchange data with the pod from its management port, in both families.
func (n *node) wantTraffic(p pod) {
	n.Helper()
	for _, address := range p.addresses() {
		n.until("traffic with "+p.name, func() error { return exchange(p, netip.AddrPortFrom(address, 8080)) })
	}
}

// exchange sends a word to the pod and reads it back.
func exchange(p pod, at netip.AddrPort) error {
	var listener net.Listener
	err := inNetNS(p.netNS, func() (err error) {
		listener, err = net.Listen("tcp", at.String())
		return err
	})
	if err != nil {
		return err
	}
	defer listener.Close()
	go func() {
		for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
			word := make([]byte, 4)
			_ = conn.SetDeadline(time.Now().Add(time.Second)) // a disconnected client does not even close the connection
			if n, err := conn.Read(word); err == nil {
				_, _ = conn.Write(word[:n])
			}
			conn.Close()
		}
	}()
	conn, err := net.DialTimeout("tcp", at.String(), time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("weft")); err != nil {
		return err
	}
	word := make([]byte, 4)
	if _, err := conn.Read(word); err != nil || string(word) != "weft" {
		return fmt.Errorf("answer %q: %w", word, err)
	}
	return nil
}
