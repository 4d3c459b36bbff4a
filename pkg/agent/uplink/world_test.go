package uplink

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/google/go-cmp/cmp"
	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/pkg/cni"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/test/poll"
)

const (
	nic      = "eth0"
	bridge   = "breth0"
	wire     = "wire0" // the other end of the cable, in the outside namespace
	outside  = "outside"
	patience = time.Minute
	nodePort = 10250
	mtu      = 1400
)

var (
	nicMAC  = net.HardwareAddr{0x02, 0x00, 0x00, 0x00, 0x00, 0x0a}
	gateway = []string{"192.0.2.1/24", "2001:db8::1/64"}
	node    = []string{"192.0.2.10", "2001:db8::10"}
)

// world is a node, which is the namespace of this process, with a cable to the outside.
type world struct {
	*testing.T
	ovs  *ovndbtest.Switch
	dir  string
	boot string
	ns   ns.NetNS
	// offloads are the link's offloads before any move.
	offloads map[string]bool
}

// newWorld configures the node as a host would, and starts Open vSwitch without a bridge.
func newWorld(t *testing.T) *world {
	t.Cleanup(func() { // after the end of ovs-vswitchd: what it made last outlives it
		if left, err := netlink.LinkByName(bridge); err == nil {
			must(t, netlink.LinkDel(left))
		}
	})
	w := &world{T: t, dir: t.TempDir(), boot: "boot-1", ovs: ovndbtest.StartSwitch(t)}
	w.ns = newNamespace(t)
	w.plug()
	listen(t, w.ns, "[::]:6443")
	listen(t, nil, fmt.Sprintf("[::]:%d", nodePort))
	w.eventually(w.settled)
	w.eventually(w.answers)
	w.offloads = features(t)
	return w
}

// newNamespace creates the outside namespace, which is removed after the test.
func newNamespace(t *testing.T) ns.NetNS {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	origin, err := netns.Get()
	must(t, err)
	defer origin.Close()
	handle, err := netns.NewNamed(outside)
	must(t, err)
	handle.Close()
	must(t, netns.Set(origin)) // the thread must not end, because the programs that it started would end with it
	found, err := ns.GetNS("/run/netns/" + outside)
	must(t, err)
	t.Cleanup(func() {
		found.Close()
		must(t, netns.DeleteNamed(outside))
	})
	must(t, found.Do(func(ns.NetNS) error { return up("lo") }))
	return found
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func up(name string) error {
	found, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(found)
}

// plug creates the cable and configures its ends, as at boot.
func (w *world) plug() {
	w.Helper()
	must(w, netlink.LinkAdd(&netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: nic, MTU: mtu, HardwareAddr: nicMAC},
		PeerName:  wire, PeerMTU: mtu, PeerNamespace: netlink.NsFd(int(w.ns.Fd())),
	}))
	w.Cleanup(w.unplug)
	must(w, w.ns.Do(func(ns.NetNS) error {
		tool, err := ethtool.NewEthtool()
		if err != nil {
			return err
		}
		defer tool.Close()
		// A physical link has checksums on the wire, unlike a veth.
		return errors.Join(tool.Change(wire, map[string]bool{"tx-checksum-ip-generic": false}),
			addresses(wire, append(gateway, "192.0.2.2/24")...), up(wire))
	}))
	for key, value := range map[string]string{
		"ipv4/rp_filter": "2", "ipv6/accept_ra": "0", "ipv4/arp_announce": "1", "ipv6/accept_dad": "0",
	} {
		must(w, os.WriteFile(sysctlPath(nic, key), []byte(value), 0))
	}
	must(w, addresses(nic, "192.0.2.10/24", "192.0.2.11/24", "198.51.100.5/32", "2001:db8::10/64", "2001:db8::11/128"))
	must(w, up(nic))
	w.configure()
}

func (w *world) unplug() {
	for _, name := range []string{nic, bridge} {
		if found, err := netlink.LinkByName(name); err == nil {
			_ = netlink.LinkDel(found)
		}
	}
	must(w, cni.RemoveGuards()) // rules do not survive a boot
}

func addresses(name string, list ...string) error {
	found, err := netlink.LinkByName(name)
	for _, text := range list {
		if err != nil {
			return err
		}
		var address *netlink.Addr
		if address, err = netlink.ParseAddr(text); err == nil {
			if address.IP.To4() == nil {
				address.Flags = unix.IFA_F_NODAD
			}
			err = netlink.AddrAdd(found, address)
		}
	}
	return err
}

// settled returns an error until the kernel has given the link its link-local address and finished duplicate detection.
func (w *world) settled() error {
	found, err := netlink.LinkByName(nic)
	if err != nil {
		return err
	}
	list, err := netlink.AddrList(found, netlink.FAMILY_V6)
	if err != nil {
		return err
	}
	for _, a := range list {
		if a.Flags&unix.IFA_F_TENTATIVE == 0 && a.IP.IsLinkLocalUnicast() {
			return nil
		}
	}
	return errors.New("the link has no link-local address yet")
}

// configure adds what a host may have besides addresses: routes of several tables and kinds, a rule and a neighbour.
func (w *world) configure() {
	w.Helper()
	found, err := netlink.LinkByName(nic)
	must(w, err)
	index := found.Attrs().Index
	cidr := func(s string) *net.IPNet { _, n, err := net.ParseCIDR(s); must(w, err); return n }
	v4, v6 := net.ParseIP("192.0.2.1"), net.ParseIP("2001:db8::1")
	for _, route := range []netlink.Route{
		{Dst: cidr("0.0.0.0/0"), Gw: v4, Priority: 100, Protocol: unix.RTPROT_STATIC},
		{Dst: cidr("::/0"), Gw: v6, Priority: 100, Protocol: unix.RTPROT_STATIC},
		{Dst: cidr("203.0.113.0/24"), Gw: v4, Table: 100, MTU: 1300, AdvMSS: 1200},
		{Dst: cidr("203.0.113.0/25"), Gw: v4, Table: 1000, Src: net.ParseIP("192.0.2.11")},
		{Dst: cidr("10.9.0.0/16"), Scope: netlink.SCOPE_LINK},
		{Dst: cidr("10.10.0.0/16"), Gw: net.ParseIP("10.9.0.1")},
		{Dst: cidr("10.11.0.0/16"), Gw: net.ParseIP("172.20.0.1"), Flags: int(netlink.FLAG_ONLINK)},
		{Dst: cidr("10.12.0.0/16"), MultiPath: []*netlink.NexthopInfo{
			{LinkIndex: index, Gw: v4, Hops: 2}, {LinkIndex: index, Gw: net.ParseIP("192.0.2.2")},
		}},
		{Dst: cidr("2001:db8:5::/48"), Gw: v6, Table: 100},
		{Dst: cidr("2001:db8:6::/48"), Gw: net.ParseIP("fe80::1"), Hoplimit: 9},
	} {
		if route.MultiPath == nil {
			route.LinkIndex = index
		}
		if err := netlink.RouteAdd(&route); err != nil {
			w.Fatalf("route %s: %v", route, err)
		}
	}
	must(w, netlink.NeighSet(&netlink.Neigh{
		LinkIndex: index, IP: net.ParseIP("192.0.2.77"), HardwareAddr: nicMAC, State: netlink.NUD_PERMANENT,
	}))
	rule := netlink.NewRule()
	rule.IifName, rule.Table, rule.Priority, rule.Family = nic, 100, 4321, netlink.FAMILY_V4
	if err := netlink.RuleAdd(rule); err != nil && !errors.Is(err, unix.EEXIST) {
		w.Fatal(err)
	}
}

// listen accepts connections until the test ends.
func listen(t *testing.T, in ns.NetNS, address string) {
	t.Helper()
	var listener net.Listener
	open := func(ns.NetNS) (err error) { listener, err = net.Listen("tcp", address); return err }
	if in == nil {
		must(t, open(nil))
	} else {
		must(t, in.Do(open))
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
}

func (w *world) request() Request {
	return Request{
		APIServer: netip.MustParseAddrPort("192.0.2.2:6443"),
		Peers:     []netip.AddrPort{netip.MustParseAddrPort("[2001:db8::1]:6443")},
	}
}

func (w *world) mover() *Mover { return New(configOf(w.dir, w.ovs.Endpoint(), w.boot)) }

// child returns a process that executes the order.
func (w *world) child(o order) *exec.Cmd {
	w.Helper()
	o.Dir, o.OpenVSwitch, o.Boot = w.dir, w.ovs.Endpoint(), w.boot
	if !o.Request.Physical {
		o.Request = w.request()
	}
	text, err := json.Marshal(o)
	must(w, err)
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), orderEnv+"="+string(text))
	return child
}

// run executes the order in a child process and returns the changes that the child made.
func (w *world) run(o order) []string {
	w.Helper()
	child := w.child(o)
	var stderr strings.Builder
	child.Stderr = &stderr
	out, err := child.Output()
	if died := child.ProcessState.Sys() != nil && !child.ProcessState.Exited(); died != (o.DieAt > 0) {
		w.Fatalf("the child (%+v) ended with %v: %s\n%s", o, err, stderr.String(), out)
	} else if !died && err != nil {
		w.Fatalf("the child: %v: %s", err, stderr.String())
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// answers connects to the node's addresses from outside.
func (w *world) answers() error {
	return w.ns.Do(func(ns.NetNS) error {
		for _, address := range node {
			to := net.JoinHostPort(address, fmt.Sprint(nodePort))
			conn, err := net.DialTimeout("tcp", to, 3*time.Second)
			if err != nil {
				return fmt.Errorf("from outside: %w", err)
			}
			conn.Close()
		}
		return nil
	})
}

// eventually repeats the check until it returns no error.
func (w *world) eventually(check func() error) {
	w.Helper()
	poll.Eventually(w, patience, check)
}

// view returns a link's configuration without its index and name. It reads with the netlink library, whose decoders the
// mover does not use.
func (w *world) view(name string) []string {
	w.Helper()
	found, err := netlink.LinkByName(name)
	if err != nil {
		return []string{err.Error()}
	}
	attrs := found.Attrs()
	lines := []string{fmt.Sprintf("MAC %s MTU %d up %t", attrs.HardwareAddr, attrs.MTU, attrs.Flags&net.FlagUp != 0)}
	list, err := netlink.AddrList(found, netlink.FAMILY_ALL)
	must(w, err)
	for _, a := range list {
		lines = append(lines, fmt.Sprintf("address %s flags %x broadcast %s lifetime %d %d",
			a.IPNet, a.Flags&^unix.IFA_F_NODAD, a.Broadcast, a.PreferedLft, a.ValidLft))
	}
	all := &netlink.Route{Table: unix.RT_TABLE_UNSPEC}
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, all, netlink.RT_FILTER_TABLE)
	must(w, err)
	for _, r := range routes {
		ours := r.LinkIndex == attrs.Index
		r.LinkIndex = 0
		for _, hop := range r.MultiPath {
			ours = ours || hop.LinkIndex == attrs.Index
			hop.LinkIndex = 0
		}
		if ours {
			lines = append(lines, fmt.Sprintf("route %s type %d flags %d mtu %d advmss %d hoplimit %d scope %s",
				r, r.Type, r.Flags, r.MTU, r.AdvMSS, r.Hoplimit, r.Scope))
		}
	}
	neighbors, err := netlink.NeighList(attrs.Index, netlink.FAMILY_ALL)
	must(w, err)
	for _, n := range neighbors {
		if n.State == netlink.NUD_PERMANENT {
			lines = append(lines, "neighbour "+n.String())
		}
	}
	rules, err := netlink.RuleList(netlink.FAMILY_ALL)
	must(w, err)
	for _, r := range rules {
		if r.IifName == name || r.OifName == name {
			lines = append(lines, fmt.Sprintf("rule %d table %d", r.Priority, r.Table))
		}
	}
	for _, key := range []string{"ipv4/rp_filter", "ipv6/accept_ra", "ipv4/arp_announce", disableIPv6} {
		value, err := os.ReadFile(sysctlPath(name, key))
		must(w, err)
		lines = append(lines, key+" "+strings.TrimSpace(string(value)))
	}
	slices.Sort(lines[1:])
	return lines
}

// expectCarries expects a link to have the given view. It retries, because the kernel adds its routes of table local shortly
// after an address.
func (w *world) expectCarries(name string, want []string, when string) {
	w.Helper()
	w.eventually(func() error {
		if diff := cmp.Diff(want, w.view(name)); diff != "" {
			return fmt.Errorf("%s: configuration of %s (-want +got):\n%s", when, name, diff)
		}
		return nil
	})
}

// ledger reads the link's ledger from disk. Nil means that the link has no ledger.
func (w *world) ledger() *Ledger {
	w.Helper()
	l, err := folder(w.dir).read(nic)
	must(w, err)
	return l
}

func addrs(list ...string) []netip.Addr {
	var found []netip.Addr
	for _, text := range list {
		found = append(found, netip.MustParseAddr(text))
	}
	return found
}

// features returns all offloads of the link, including offloads that no move changes.
func features(t *testing.T) map[string]bool {
	t.Helper()
	tool, err := ethtool.NewEthtool()
	must(t, err)
	defer tool.Close()
	found, err := tool.Features(nic)
	must(t, err)
	return found
}
