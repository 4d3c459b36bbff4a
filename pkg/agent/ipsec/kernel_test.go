package ipsec

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/nftables"
	"github.com/weft-network/weft/pkg/install/launch"
	"github.com/weft-network/weft/pkg/install/pki"
	"github.com/weft-network/weft/pkg/ports"
	"github.com/weft-network/weft/test/isolation"
	"github.com/weft-network/weft/test/lab/tools"
)

func TestMain(m *testing.M) {
	if err := tools.OnPath("nft"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(isolation.Run(unix.CLONE_NEWNET|unix.CLONE_NEWNS, m.Run))
}

// needESP skips the test unless this kernel has ESP. It returns a root with strongSwan.
func needESP(t *testing.T) (root string) {
	t.Helper()
	key := make([]byte, 20)
	state := &netlink.XfrmState{Src: net.IPv4(192, 0, 2, 1), Dst: net.IPv4(192, 0, 2, 2), Proto: netlink.XFRM_PROTO_ESP,
		Mode: netlink.XFRM_MODE_TRANSPORT, Spi: 1, Aead: &netlink.XfrmStateAlgo{Name: "rfc4106(gcm(aes))", Key: key, ICVLen: 128}}
	err := netlink.XfrmStateAdd(state)
	if err != nil {
		t.Skipf("the kernel has no ESP with AES-GCM: %v; see make check-kernel", err)
	}
	must(t, netlink.XfrmStateDel(state))
	return strongSwan(t)
}

// strongSwan returns a root with strongSwan.
func strongSwan(t *testing.T) (root string) {
	t.Helper()
	cache, err := tools.DefaultCache()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(cache.Root(), "usr/sbin/charon")); err != nil {
		t.Fatalf("strongSwan is absent: %v; see make tools", err)
	}
	return cache.Root()
}

// node is a network namespace with an address, its IKE daemon, and its Tunnels.
type node struct {
	t        *testing.T
	name     string
	root     string // with strongSwan
	dir      string
	address  []netip.Addr
	ns       netns.NsHandle
	tunnels  *Tunnels
	daemon   *exec.Cmd
	changes  atomic.Int64
	wake     chan struct{} // receives when Apply has to be called
	repaired int
	seen     *counter
}

// in runs a function in the node's namespace.
func (n *node) in(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with the goroutine
		if err := netns.Set(n.ns); err != nil {
			n.t.Error(err)
			return
		}
		do()
	}()
	<-done
}

// newNodes returns two nodes whose links are connected.
func newNodes(t *testing.T, root string, authority *pki.Authority) (nodes [2]*node) {
	t.Helper()
	for i := range nodes {
		n := &node{t: t, name: fmt.Sprint("n", i+1), root: root, dir: t.TempDir(), wake: make(chan struct{}, 1),
			address: []netip.Addr{netip.MustParseAddr(fmt.Sprint("192.0.2.", i+1)), netip.MustParseAddr(fmt.Sprint("2001:db8::", i+1))}}
		nodes[i] = n
		made := make(chan error)
		go func() {
			runtime.LockOSThread()
			var err error
			n.ns, err = netns.New()
			made <- err
		}()
		if err := <-made; err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.ns.Close() })
		n.identify(authority)
		changed := func() { n.changes.Add(1); n.enqueue() }
		n.tunnels = New(Options{Socket: launch.IKESocket(n.dir), Pair: filepath.Join(n.dir, "chassis.pem"),
			Authorities: filepath.Join(n.dir, "ca.crt"), Log: logr.Discard(),
			Changed: changed, Deleted: changed, After: func(d time.Duration) { time.AfterFunc(d, n.enqueue) }})
		t.Cleanup(n.tunnels.Close)
	}
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "link1"}, PeerName: "link2"}))
	for i, n := range nodes {
		link, err := netlink.LinkByName(fmt.Sprint("link", i+1))
		must(t, err)
		must(t, netlink.LinkSetNsFd(link, int(n.ns)))
		n.in(func() {
			link, err := netlink.LinkByName(link.Attrs().Name)
			must(t, err)
			lo, err := netlink.LinkByName("lo")
			must(t, errors.Join(err, netlink.LinkSetUp(lo), netlink.LinkSetUp(link)))
			for _, a := range n.address {
				bits := 24
				if a.Is6() {
					bits = 64
				}
				must(t, netlink.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(bits, a.BitLen())},
					Flags: unix.IFA_F_NODAD}))
			}
			n.seen = count(t, link.Attrs().Index)
		})
	}
	return nodes
}

// identify gives the node a new key with a certificate.
func (n *node) identify(authority *pki.Authority) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(n.t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: n.name}}, key)
	must(n.t, err)
	request, err := x509.ParseCertificateRequest(der)
	must(n.t, err)
	cert, err := authority.SignChassis(request, time.Now(), time.Hour)
	must(n.t, err)
	der, err = x509.MarshalECPrivateKey(key)
	must(n.t, err)
	pair := append(cert, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})...)
	must(n.t, os.WriteFile(filepath.Join(n.dir, "chassis.pem"), pair, 0o600))
	must(n.t, os.WriteFile(filepath.Join(n.dir, "ca.crt"), authority.Cert, 0o600))
}

// start starts the node's IKE daemon in strongSwan's root, with a /run of its own.
func (n *node) start() {
	n.t.Helper()
	program := launch.IKE(n.dir)
	must(n.t, program.Prepare(n.t.Context()))
	script := `set -e
mount --make-rprivate /
mkdir -p $ROOT/run $ROOT/var $ROOT/dev $ROOT/proc
mount -t tmpfs tmpfs $ROOT/run
rm -rf $ROOT/var/run
ln -s ../run $ROOT/var/run
mount --bind /dev $ROOT/dev
mount --bind /proc $ROOT/proc
mkdir -p $ROOT/run/dir
mount --bind $DIR $ROOT/run/dir
sed -e "s#$DIR#/run/dir#" $DIR/strongswan.conf > $ROOT/run/strongswan.conf
exec env STRONGSWAN_CONF=/run/strongswan.conf chroot $ROOT "$0"
`
	n.in(func() {
		n.daemon = exec.Command("sh", "-c", script, program.Argv[0])
		n.daemon.Env = append(os.Environ(), "ROOT="+n.root, "DIR="+n.dir)
		n.daemon.Stdout, n.daemon.Stderr = n.t.Output(), n.t.Output()
		n.daemon.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
		must(n.t, n.daemon.Start())
	})
	n.t.Cleanup(n.kill)
}

// kill ends the daemon without notice.
func (n *node) kill() {
	if n.daemon != nil {
		_ = n.daemon.Process.Kill()
		_ = n.daemon.Wait()
		n.daemon = nil
	}
}

func (n *node) enqueue() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// once applies a protection to the tunnels to another node.
func (n *node) once(to *node, protection networkv1alpha1.TunnelProtection) (o Outcome, err error) {
	var peers []Peer
	for i, a := range to.address {
		peers = append(peers, Peer{Chassis: to.name, Address: a, Local: n.address[i]})
	}
	n.in(func() { o, err = n.tunnels.Apply(n.t.Context(), n.name, peers, protection) })
	n.repaired += len(o.Repaired)
	return o, err
}

// apply applies a protection until nothing is damaged or suspect, and there is the expected number of peers without keys.
func (n *node) apply(to *node, protection networkv1alpha1.TunnelProtection, missing int) {
	n.t.Helper()
	n.eventually(func() error {
		o, err := n.once(to, protection)
		if err == nil && (len(o.Unkeyed) != missing || len(o.Damaged) > 0) {
			err = fmt.Errorf("%s has no keys with %q; damaged: %q", n.name, Names(o.Unkeyed), Names(o.Damaged))
		}
		for name, s := range n.tunnels.suspects {
			if err == nil && !s.repaired {
				err = fmt.Errorf("%s suspects %s", n.name, name)
			}
		}
		return err
	})
}

func (n *node) eventually(try func() error) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), 90*time.Second)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			n.t.Fatal(err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// reaches sends packets like tunnels' to another node until one arrives at each address.
func (n *node) reaches(to *node) {
	n.t.Helper()
	for _, a := range to.address {
		var server net.PacketConn
		to.in(func() {
			var err error
			server, err = net.ListenPacket("udp", netip.AddrPortFrom(a, ports.Geneve).String())
			must(n.t, err)
		})
		n.eventually(func() error {
			var err error
			n.in(func() {
				var client net.Conn
				if client, err = net.Dial("udp", netip.AddrPortFrom(a, ports.Geneve).String()); err == nil {
					_, err = client.Write([]byte("secret"))
					client.Close()
				}
			})
			if err != nil {
				return err
			}
			must(n.t, server.SetReadDeadline(time.Now().Add(300*time.Millisecond)))
			_, _, err = server.ReadFrom(make([]byte, 100))
			return err
		})
		server.Close()
	}
}

// counter counts the packets that leave or enter a link.
type counter struct{ encrypted, clear, marks atomic.Int64 }

func count(t *testing.T, link int) *counter {
	t.Helper()
	const all = unix.ETH_P_ALL << 8 // in network byte order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, all)
	must(t, err)
	must(t, unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link}))
	packets := os.NewFile(uintptr(fd), "packets") // its end also ends Read, before another test gets the descriptor
	t.Cleanup(func() { packets.Close() })
	c := &counter{}
	go func() {
		buffer := make([]byte, 2000)
		for {
			n, err := packets.Read(buffer)
			if err != nil {
				return
			}
			c.take(buffer[:n])
		}
	}()
	return c
}

func (c *counter) take(packet []byte) {
	const ipv6Header = 40
	protocol, rest := byte(0), []byte(nil)
	switch {
	case len(packet) >= 20 && packet[0]>>4 == 4:
		protocol, rest = packet[9], packet[int(packet[0]&15)*4:]
	case len(packet) >= ipv6Header && packet[0]>>4 == 6:
		protocol, rest = packet[6], packet[ipv6Header:]
	}
	switch {
	case protocol == unix.IPPROTO_ESP:
		c.encrypted.Add(1)
	case protocol == unix.IPPROTO_UDP && len(rest) > 4 && int(rest[2])<<8|int(rest[3]) == ports.Geneve:
		c.clear.Add(1)
	case protocol == unix.IPPROTO_UDP && len(rest) > 4 && int(rest[2])<<8|int(rest[3]) == mark:
		c.marks.Add(1)
	}
}

func (c *counter) reset() { c.encrypted.Store(0); c.clear.Store(0) }

// mark is the port of packets that no policy protects. A mark that was counted shows that all packets before it were.
const mark = 9

// expect compares what passed the link since the last call.
func (n *node) expect(to *node, when string, encrypted, clear bool) {
	n.t.Helper()
	marks := n.seen.marks.Load()
	n.in(func() {
		client, err := net.Dial("udp", netip.AddrPortFrom(to.address[0], mark).String())
		must(n.t, err)
		_, err = client.Write([]byte("mark"))
		must(n.t, errors.Join(err, client.Close()))
	})
	n.eventually(func() error {
		if n.seen.marks.Load() == marks {
			return errors.New("the mark is not seen at the link")
		}
		return nil
	})
	if e, p := n.seen.encrypted.Load(), n.seen.clear.Load(); e > 0 != encrypted || p > 0 != clear {
		n.t.Errorf("%s: %d encrypted packets and %d in the clear passed", when, e, p)
	}
	n.seen.reset()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Packets of tunnels are in the clear until both nodes require encryption, and encrypted from then on: also while the IKE daemon is
// replaced, after it has started again, and with a renewed certificate. Without encryption they are in the clear again.
func TestTunnelsAreEncrypted(t *testing.T) {
	root := needESP(t)
	authority, err := pki.NewAuthority("weft-sb", time.Now())
	must(t, err)
	nodes := newNodes(t, root, authority)
	a, b := nodes[0], nodes[1]
	both := func(do func(n, other *node)) { do(a, b); do(b, a) }

	both(func(n, other *node) { n.reaches(other) })
	a.expect(b, "without encryption", false, true)

	if _, err := a.tunnels.Apply(t.Context(), "n1", nil, networkv1alpha1.ProtectionAccepted); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("without a daemon the error is %v", err)
	}
	both(func(n, _ *node) { n.start() })
	both(func(n, other *node) { n.apply(other, networkv1alpha1.ProtectionAccepted, 2) })
	both(func(n, other *node) { n.reaches(other) })
	a.expect(b, "accepted", false, true)

	a.apply(b, networkv1alpha1.ProtectionRequired, 0) // it begins, and the other one accepts
	b.apply(a, networkv1alpha1.ProtectionRequired, 0)
	a.seen.reset()
	both(func(n, other *node) { n.reaches(other) })
	a.expect(b, "required", true, false)

	b.kill()
	both(func(n, other *node) { n.reaches(other) })
	a.expect(b, "while a daemon is gone", true, false)

	b.start()
	b.apply(a, networkv1alpha1.ProtectionRequired, 0)
	both(func(n, other *node) { n.reaches(other) })
	a.expect(b, "with the next daemon", true, false)

	changes := a.changes.Load()
	a.identify(authority)
	a.eventually(func() error {
		if a.changes.Load() == changes {
			return errors.New("the renewed certificate is not noticed")
		}
		return nil
	})
	a.apply(b, networkv1alpha1.ProtectionRequired, 0)
	b.kill()
	b.start()
	b.apply(a, networkv1alpha1.ProtectionRequired, 0) // authenticates the renewed certificate
	both(func(n, other *node) { n.reaches(other) })
	a.expect(b, "with a renewed certificate", true, false)

	both(func(n, other *node) { n.apply(other, "", 0) })
	both(func(n, other *node) { n.reaches(other) })
	a.expect(b, "without encryption again", false, true)
	if a.repaired+b.repaired > 0 {
		t.Errorf("%d and %d repairs of what charon itself changed", a.repaired, b.repaired)
	}
}

// guard applies the host's table that drops tunnels' packets that IPsec does not protect.
func (n *node) guard() {
	n.in(func() {
		_, err := (&nftables.Table{Of: nftables.Tunnels}).Apply(n.t.Context(), desired.TunnelGuard())
		must(n.t, err)
	})
}

// send sends a packet like a tunnel's to each address of another node. The kernel may refuse it.
func (n *node) send(to *node) {
	n.in(func() {
		for _, a := range to.address {
			client, err := net.Dial("udp", netip.AddrPortFrom(a, ports.Geneve).String())
			must(n.t, err)
			_, _ = client.Write([]byte("secret"))
			client.Close()
		}
	})
}

// Without policies, the table keeps packets of tunnels from leaving and from entering, and no others.
func TestNoPacketPassesInTheClear(t *testing.T) {
	authority, err := pki.NewAuthority("weft-sb", time.Now())
	must(t, err)
	nodes := newNodes(t, "", authority)
	a, b := nodes[0], nodes[1]
	a.reaches(b)
	a.expect(b, "without a guard", false, true)
	var server net.PacketConn
	b.guard()
	b.in(func() {
		server, err = net.ListenPacket("udp", fmt.Sprintf(":%d", ports.Geneve))
		must(t, err)
	})
	defer server.Close()
	a.send(b)
	a.expect(b, "with a guard at the receiver", false, true)
	must(t, server.SetReadDeadline(time.Now().Add(300*time.Millisecond)))
	if _, from, err := server.ReadFrom(make([]byte, 100)); err == nil {
		t.Errorf("a packet in the clear arrives from %s", from)
	}
	a.guard()
	a.send(b)
	a.expect(b, "with a guard", false, false)
}

// Policies and keys that another program deletes are restored, in both directions. No packet leaves in the clear meanwhile.
func TestWhatIsDeletedIsRestored(t *testing.T) {
	root := needESP(t)
	authority, err := pki.NewAuthority("weft-sb", time.Now())
	must(t, err)
	nodes := newNodes(t, root, authority)
	a, b := nodes[0], nodes[1]
	both := func(do func(n, other *node)) { do(a, b); do(b, a) }
	both(func(n, _ *node) { n.guard(); n.start() })
	both(func(n, other *node) { n.apply(other, networkv1alpha1.ProtectionAccepted, 2) })
	a.apply(b, networkv1alpha1.ProtectionRequired, 0)
	b.apply(a, networkv1alpha1.ProtectionRequired, 0)
	both(func(n, other *node) { n.reaches(other) })
	a.expect(b, "required", true, false)

	flushPolicies := func() { must(t, netlink.XfrmPolicyFlush()) }
	flushStates := func() { must(t, netlink.XfrmStateFlush(0)) }
	for _, c := range []struct {
		name string
		at   []*node
		do   func()
	}{
		{"one policy", []*node{a}, func() {
			all, err := tunnelPolicies()
			must(t, err)
			must(t, netlink.XfrmPolicyDel(&all[0]))
		}},
		{"the policies of a node", []*node{a}, flushPolicies},
		{"the policies of the other node", []*node{b}, flushPolicies},
		{"the keys of a node", []*node{a}, flushStates},
		{"the keys of the other node", []*node{b}, flushStates},
		{"everything", nodes[:], func() { flushStates(); flushPolicies() }},
	} {
		before := a.repaired + b.repaired
		for _, n := range c.at {
			n.tunnels.suspects = map[string]suspect{} // as long after the former repair
			n.in(c.do)
		}
		both(func(n, other *node) { n.send(other) })
		started := time.Now()
		both(func(n, other *node) { n.apply(other, networkv1alpha1.ProtectionRequired, 0) })
		both(func(n, other *node) { n.reaches(other) })
		t.Logf("%s: %d repairs, %s", c.name, a.repaired+b.repaired-before, time.Since(started))
		if a.repaired+b.repaired == before {
			t.Errorf("%s: no repair", c.name)
		}
		a.expect(b, c.name, true, false)
	}
	a.tunnelsTo(b)
	a.expect(b, "tunnels of the kernel", true, false)
}

// tunnelsTo sends packets through a tunnel of the kernel, as Open vSwitch does, until one arrives at another node.
func (n *node) tunnelsTo(to *node) {
	n.t.Helper()
	inner := []string{"198.51.100.1", "198.51.100.2"}
	for i, ends := range [][2]*node{{n, to}, {to, n}} {
		ends[0].in(func() {
			link := &netlink.Geneve{LinkAttrs: netlink.LinkAttrs{Name: "tunnel"}, ID: 1, Dport: ports.Geneve, Remote: ends[1].address[0].AsSlice()}
			must(n.t, netlink.LinkAdd(link))
			address := &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(inner[i]), Mask: net.CIDRMask(24, 32)}}
			must(n.t, errors.Join(netlink.AddrAdd(link, address), netlink.LinkSetUp(link)))
		})
	}
	var server net.PacketConn
	to.in(func() {
		var err error
		server, err = net.ListenPacket("udp", inner[1]+":7")
		must(n.t, err)
	})
	defer server.Close()
	n.eventually(func() error {
		n.in(func() {
			client, err := net.Dial("udp", inner[1]+":7")
			must(n.t, err)
			_, _ = client.Write([]byte("secret"))
			client.Close()
		})
		must(n.t, server.SetReadDeadline(time.Now().Add(300*time.Millisecond)))
		_, _, err := server.ReadFrom(make([]byte, 100))
		return err
	})
}

// A node with a certificate of another authority gets no packet.
func TestForeignCertificate(t *testing.T) {
	root := needESP(t)
	authority, err := pki.NewAuthority("weft-sb", time.Now())
	must(t, err)
	foreign, err := pki.NewAuthority("weft-sb", time.Now())
	must(t, err)
	nodes := newNodes(t, root, authority)
	a, b := nodes[0], nodes[1]
	b.identify(foreign)
	a.start()
	b.start()
	a.apply(b, networkv1alpha1.ProtectionRequired, 2)
	b.apply(a, networkv1alpha1.ProtectionRequired, 2)
	a.seen.reset()
	for range 3 {
		a.send(b)
	}
	a.apply(b, networkv1alpha1.ProtectionRequired, 2)
	a.expect(b, "with a foreign certificate", false, false)
}
