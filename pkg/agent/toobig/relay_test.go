package toobig_test

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/openflow"
	"github.com/weft-network/weft/pkg/agent/toobig"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
)

const (
	bridgeName = "br-test"
	ourMAC     = "02:00:00:18:00:11"
	mtu        = 1300
	// Conntrack translates podPort to translatedPort.
	podPort, translatedPort, serverPort = 40000, 5000, 7000
	echo                                = 0x1234 // an echo request's identifier
)

var (
	pod    = netip.MustParseAddr("fd00:10:244:1::3")
	node   = netip.MustParseAddr("fd00:18::11")
	server = netip.MustParseAddr("2001:db8:200::10")
	router = netip.MustParseAddr("fd00:18::1")
)

// The gateway router must get the messages that conntrack of the datapath cannot relate or damages, with the pod's
// address.
func TestMessagesReachThePod(t *testing.T) {
	for name, alone := range map[string]bool{"the host's link": false, "a link of the router's own": true} {
		t.Run(name, func(t *testing.T) {
			s, packets := newSwitch(t, alone)
			relay := toobig.New(s.RunDir(), testr.New(t), func() {})
			bridge := toobig.Bridge{Name: bridgeName, Patch: 2, MAC: ourMAC}
			if err := relay.Follow(t.Context(), bridge); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(relay.Stop)
			for _, ignored := range [][]byte{
				message(node, fragment(datagram(node, translatedPort), 1280)), // has no ports
				message(node, datagram(node, translatedPort+1)),               // belongs to no connection
				message(server, datagram(node, translatedPort)),               // not to the datagram's sender
				damaged(message(node, datagram(node, translatedPort))),
			} {
				sendFrom(t, s, 1, ignored)
			}
			for _, relayed := range []struct {
				name         string
				sent, quoted []byte
			}{
				{"a datagram", datagram(node, translatedPort), datagram(pod, podPort)},
				{"the first fragment of a datagram", fragment(datagram(node, translatedPort), 0), datagram(pod, podPort)},
				{"the first fragment of an echo request", fragment(request(node), 0), request(pod)},
			} {
				sendFrom(t, s, 1, message(node, relayed.sent))
				got := packets.next(t)
				if want := message(pod, relayed.quoted); got != hex.EncodeToString(want[ethernet:]) {
					t.Errorf("%s: the pod gets\n%s, want\n%x", relayed.name, got, want[ethernet:])
				}
			}
		})
	}
}

// The end of ovs-vswitchd ends the connection. The relay calls lost, and the next call of Follow makes a new connection.
func TestARelayFollowsARestartedBridge(t *testing.T) {
	s, _ := newSwitch(t, false)
	lost := make(chan struct{}, 1)
	relay := toobig.New(s.RunDir(), testr.New(t), func() { lost <- struct{}{} })
	bridge := toobig.Bridge{Name: bridgeName, Patch: 2, MAC: ourMAC}
	if err := relay.Follow(t.Context(), bridge); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(relay.Stop)
	s.KillSwitch()
	select {
	case <-lost:
	case <-time.After(time.Minute):
		t.Fatal("the relay did not report the end of ovs-vswitchd")
	}
	s.RunSwitch()
	// The command returns when ovs-vswitchd has created the bridge again.
	ovndbtest.Command(t, "ovs-vsctl", "--db="+s.Endpoint(), "--timeout=20", "set", "Bridge", bridgeName, "external_ids:again=1")
	packets := prepare(t, s, false)
	if err := relay.Follow(t.Context(), bridge); err != nil {
		t.Fatal(err)
	}
	sendFrom(t, s, 1, message(node, fragment(request(node), 0)))
	packets.next(t)
}

// The relay sends a message that quotes a fragment again, about the whole packet.
func TestMessagesOfALink(t *testing.T) {
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "sender"}, PeerName: "receiver"}
	if err := netlink.LinkAdd(veth); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netlink.LinkDel(veth) })
	index := map[string]int{"sender": 0, "receiver": 0}
	setUp(t, index)
	relay := toobig.New("", testr.New(t), func() {})
	if err := relay.FollowLink(t.Context(), "sender"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(relay.Stop)
	packets, sender := listen(t, index["receiver"]), listen(t, index["sender"])
	whole, cut := message(pod, datagram(pod, podPort)), message(pod, fragment(datagram(pod, podPort), 0))
	for _, frame := range [][]byte{message(pod, datagram(pod, podPort+1)), cut} { // the relay does not resend the first
		if err := unix.Sendto(sender.fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: index["sender"]}); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range [][]byte{message(pod, datagram(pod, podPort+1)), cut, whole} {
		if got := packets.next(t); got != hex.EncodeToString(want[ethernet:]) {
			t.Errorf("the link received\n%s, want\n%x", got, want[ethernet:])
		}
	}
}

// setUp sets links up, waits until they carry frames, and stores their indexes.
func setUp(t *testing.T, index map[string]int) {
	t.Helper()
	updates, done := make(chan netlink.LinkUpdate, 100), make(chan struct{})
	t.Cleanup(func() { close(done) })
	if err := netlink.LinkSubscribe(updates, done); err != nil {
		t.Fatal(err)
	}
	waiting := map[string]bool{}
	for name := range index {
		waiting[name] = true
		link, err := netlink.LinkByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.LinkSetUp(link); err != nil {
			t.Fatal(err)
		}
		index[name] = link.Attrs().Index
	}
	for len(waiting) > 0 {
		select {
		case u := <-updates:
			if u.Link.Attrs().OperState == netlink.OperUp {
				delete(waiting, u.Link.Attrs().Name)
			}
		case <-time.After(time.Minute):
			t.Fatalf("links are not up: %v", waiting)
		}
	}
}

// newSwitch starts Open vSwitch with a bridge that has Weft's flows and two connections of the pod. The listener
// receives the packets for the pod at the gateway router.
func newSwitch(t *testing.T, alone bool) (*ovndbtest.Switch, *listener) {
	t.Helper()
	if ovndbtest.OnKernel(t) {
		t.Skip("the agent does not relay on the kernel's datapath")
	}
	t.Setenv("PATH", filepath.Dir(ovndbtest.Binary(t, "ovs-ofctl"))+":"+os.Getenv("PATH"))
	s := ovndbtest.StartSwitch(t)
	ovndbtest.Command(t, "ovs-vsctl", "--db="+s.Endpoint(), "--timeout=20",
		"add-br", bridgeName, "--", "set", "Bridge", bridgeName, "datapath_type=netdev",
		"--", "add-port", bridgeName, "outside", "--", "set", "Interface", "outside", "type=internal", "ofport_request=1",
		"--", "add-port", bridgeName, "router", "--", "set", "Interface", "router", "type=internal", "ofport_request=2")
	return s, prepare(t, s, alone)
}

// prepare writes the flows and makes the connections that newSwitch describes.
func prepare(t *testing.T, s *ovndbtest.Switch, alone bool) *listener {
	t.Helper()
	link, err := netlink.LinkByName("router")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		t.Fatal(err)
	}
	packets := listen(t, link.Attrs().Index)
	connect(t, s, desired.ExternalBridge{Userspace: true, Alone: alone})
	return packets
}

// connect writes a bridge's flows and makes the connections.
func connect(t *testing.T, s *ovndbtest.Switch, bridge desired.ExternalBridge) {
	t.Helper()
	bridge.Physical, bridge.Patch, bridge.MAC, bridge.Addresses = 1, 2, ourMAC, []netip.Addr{node}
	if _, err := openflow.New(s.RunDir(), bridgeName).Apply(bridge.Flows()); err != nil {
		t.Fatal(err)
	}
	for translation, sent := range map[string][2][]byte{
		"nat(src=[" + node.String() + "]:5000)": {datagram(pod, podPort), datagram(node, translatedPort)},
		"nat(src=" + node.String() + ")":        {request(pod), request(node)},
	} {
		packetOut(t, s, 2, sent[0], "ct(commit,zone=0,"+translation+")")
		sendFrom(t, s, 2, sent[1]) // the bridge marks the connection as the router's
	}
}

// sendFrom sends an IPv6 packet through the flows.
func sendFrom(t *testing.T, s *ovndbtest.Switch, port int, packet []byte) {
	t.Helper()
	packetOut(t, s, port, packet, "table")
}

func packetOut(t *testing.T, s *ovndbtest.Switch, port int, packet []byte, actions string) {
	t.Helper()
	source, destination := "020000180001", "020000180011"
	if port == 2 {
		source, destination = destination, source
	}
	if len(packet) > 0 && packet[12] == 0x86 && packet[13] == 0xdd { // a frame
		packet = packet[ethernet:]
	}
	ovndbtest.Command(t, "ovs-ofctl", "packet-out", "unix:"+s.RunDir()+"/"+bridgeName+".mgmt",
		"in_port="+string(rune('0'+port))+",packet="+destination+source+"86dd"+hex.EncodeToString(packet)+",actions="+actions)
}

const ethernet = 14

// ip returns an IPv6 packet.
func ip(from, to netip.Addr, protocol byte, body []byte) []byte {
	packet := append([]byte{0x60, 0, 0, 0}, byte(len(body)>>8), byte(len(body)), protocol, 64)
	a, b := from.As16(), to.As16()
	return append(append(append(packet, a[:]...), b[:]...), body...)
}

// sealed writes the checksum of an IPv6 packet's body (RFC 8200, section 8.1).
func sealed(packet []byte, place int) []byte {
	sum := uint32(len(packet)-40) + uint32(packet[6])
	for i := 8; i < len(packet); i += 2 {
		sum += uint32(packet[i]) << 8
		if i+1 < len(packet) {
			sum += uint32(packet[i+1])
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(packet[40+place:], ^uint16(sum))
	return packet
}

// datagram returns a datagram to the server. Its data is zero, and its checksum covers the source.
func datagram(from netip.Addr, port uint16) []byte {
	body := binary.BigEndian.AppendUint16(nil, port)
	body = binary.BigEndian.AppendUint16(body, serverPort)
	body = append(body, 0, 24, 0, 0)
	packet := sealed(ip(from, server, 17, append(body, make([]byte, 16)...)), 6)
	return packet
}

// request returns an echo request to the server.
func request(from netip.Addr) []byte {
	body := binary.BigEndian.AppendUint16([]byte{128, 0, 0, 0}, echo)
	return sealed(ip(from, server, 58, append(body, make([]byte, 18)...)), 2)
}

// fragment adds a fragment header to a packet. More fragments follow.
func fragment(packet []byte, offset uint16) []byte {
	header := []byte{packet[6], 0, 0, 0, 0, 0, 0, 7}
	binary.BigEndian.PutUint16(header[2:], offset|1)
	whole := append(append(append([]byte(nil), packet[:40]...), header...), packet[40:]...)
	whole[6] = 44
	binary.BigEndian.PutUint16(whole[4:], uint16(len(whole)-40))
	return whole
}

// message returns a frame with the router's Packet Too Big about a packet.
func message(to netip.Addr, quoted []byte) []byte {
	body := binary.BigEndian.AppendUint32([]byte{2, 0, 0, 0}, mtu)
	packet := sealed(ip(router, to, 58, append(body, quoted...)), 2)
	return append([]byte{2, 0, 0, 0x18, 0, 0x11, 2, 0, 0, 0, 0, 0, 0x86, 0xdd}, packet...)
}

func damaged(frame []byte) []byte {
	frame[len(frame)-1]++
	return frame
}

// listener receives the frames of a link.
type listener struct{ fd int }

func listen(t *testing.T, index int) *listener {
	t.Helper()
	const all = 3 // ETH_P_ALL
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all << 8, Ifindex: index}); err != nil {
		t.Fatal(err)
	}
	return &listener{fd}
}

// next waits for the next packet to the pod.
func (l *listener) next(t *testing.T) string {
	t.Helper()
	const patience = 20 * time.Second
	buffer, want := make([]byte, 2048), pod.As16()
	for deadline := time.Now().Add(patience); ; {
		ready := []unix.PollFd{{Fd: int32(l.fd), Events: unix.POLLIN}}
		n, err := unix.Poll(ready, int(max(0, time.Until(deadline).Milliseconds())))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			t.Fatal(err)
		case n == 0:
			t.Fatal("no packet to the pod came")
		}
		if n, _, err = unix.Recvfrom(l.fd, buffer, 0); err != nil {
			t.Fatal(err)
		}
		if n > ethernet+40 && buffer[12] == 0x86 && [16]byte(buffer[ethernet+24:]) == want {
			return hex.EncodeToString(buffer[ethernet:n])
		}
	}
}
