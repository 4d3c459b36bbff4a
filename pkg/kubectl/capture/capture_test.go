package capture

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"github.com/vishvananda/netlink"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
)

// loopback brings lo up, on which packets are captured.
func loopback(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	link, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(link)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// signal closes its channel at the first write: the file's header, from which on packets are recorded.
type signal struct {
	bytes.Buffer
	begun chan struct{}
}

func (s *signal) Write(b []byte) (int, error) {
	if s.Len() == 0 {
		defer close(s.begun)
	}
	return s.Buffer.Write(b)
}

// send sends datagrams to a port of lo.
func send(t *testing.T, port uint16, text string, n int) {
	t.Helper()
	conn, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range n {
		if _, err := conn.Write([]byte(text)); err != nil && !strings.Contains(err.Error(), "refused") { // nobody listens
			t.Fatal(err)
		}
	}
}

// payloads returns the payloads of the datagrams in a pcap file.
func payloads(t *testing.T, pcap io.Reader) (all []string) {
	t.Helper()
	reader, err := pcapgo.NewReader(pcap)
	if err != nil {
		t.Fatal(err)
	}
	for {
		data, _, err := reader.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if udp, ok := gopacket.NewPacket(data, layers.LayerTypeEthernet, gopacket.Default).Layer(layers.LayerTypeUDP).(*layers.UDP); ok {
			all = append(all, string(udp.Payload))
		}
	}
}

// A recording ends after its number of packets, which the filter selects. On lo each packet is seen twice.
func TestRunEndsAfterSomePackets(t *testing.T) {
	loopback(t)
	out := &signal{begun: make(chan struct{})}
	ended := make(chan error, 1)
	var written int
	go func() {
		var err error
		written, _, err = Run(t.Context(), Options{Link: "lo", Filter: Filter{Protocol: "udp", Port: 7000}, For: time.Hour, Packets: 4,
			Bytes: math.MaxUint16}, out)
		ended <- err
	}()
	<-out.begun
	send(t, 7001, "other", 3)
	send(t, 7000, "mine", 3)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if got := payloads(t, &out.Buffer); written != 4 || strings.Join(got, " ") != "mine mine mine mine" {
		t.Errorf("recorded %d packets: %q", written, got)
	}
}

// Without a filter every packet is recorded.
func TestRunWithoutAFilter(t *testing.T) {
	loopback(t)
	out := &signal{begun: make(chan struct{})}
	ended := make(chan error, 1)
	go func() {
		_, _, err := Run(t.Context(), Options{Link: "lo", For: time.Hour, Packets: 2, Bytes: math.MaxUint16}, out)
		if err != nil && out.Len() == 0 {
			close(out.begun)
		}
		ended <- err
	}()
	<-out.begun
	send(t, 7000, "any", 1)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if got := payloads(t, &out.Buffer); !slices.Contains(got, "any") {
		t.Errorf("recorded the datagrams %q", got)
	}
}

// A recording ends with its time and with its context, without an error.
func TestRunEndsInTime(t *testing.T) {
	loopback(t)
	o := Options{Link: "lo", For: time.Millisecond, Packets: 1, Bytes: 64, Filter: Filter{Port: 1}}
	if written, _, err := Run(t.Context(), o, &bytes.Buffer{}); written != 0 || err != nil {
		t.Errorf("with its time: %d, %v", written, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	out := &signal{begun: make(chan struct{})}
	go func() { <-out.begun; cancel() }()
	o.For = time.Hour
	if written, _, err := Run(ctx, o, out); written != 0 || err != nil {
		t.Errorf("with its context: %d, %v", written, err)
	}
}

func TestRunOnALinkThatDoesNotExist(t *testing.T) {
	loopback(t)
	_, _, err := Run(t.Context(), Options{Link: "none", For: time.Hour, Packets: 1, Bytes: 64}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("error %v", err)
	}
}

func TestLinkOf(t *testing.T) {
	ovs := ovndbtest.Start(t, "vswitch")
	unitOf := desired.AttachmentUnit(desired.Attachment{InterfaceID: "demo_web-0", PodUID: "uid-0", ContainerID: "c0", IfName: "eth0",
		HostName: "veth0"}, "", nil)
	var iface *vswitchdb.Interface
	for _, row := range unitOf.Rows {
		if i, ok := row.Model.(*vswitchdb.Interface); ok {
			iface = i
		}
	}
	args := []string{"add-br", "br-int", "--", "add-port", "br-int", "veth0", "--", "set", "Interface", "veth0"}
	for key, value := range iface.ExternalIDs {
		if value != "" {
			args = append(args, "external_ids:"+key+"=\""+value+"\"")
		}
	}
	ovndbtest.Command(t, "ovs-vsctl", append([]string{"--db=" + ovs.Endpoint(), "--no-wait"}, args...)...)
	if got, err := LinkOf(t.Context(), ovs.Endpoint(), "uid-0", "eth0"); got != "veth0" || err != nil {
		t.Errorf("link %q, %v", got, err)
	}
	for _, other := range [][2]string{{"uid-0", "net1"}, {"uid-1", "eth0"}, {"", "eth0"}} {
		if got, err := LinkOf(t.Context(), ovs.Endpoint(), other[0], other[1]); err == nil || !strings.Contains(err.Error(), other[1]) {
			t.Errorf("%v: link %q, %v", other, got, err)
		}
	}
}
