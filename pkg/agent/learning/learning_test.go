package learning_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/pkg/agent/learning"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/test/isolation"
	"github.com/weft-network/weft/test/poll"
)

const bridgeName = "br-test"

func TestMain(m *testing.M) { os.Exit(isolation.Run(unix.CLONE_NEWNET|unix.CLONE_NEWPID, m.Run)) }

// pipeline is a part of OVN's: connections are committed, learned in table 22, and reach table 23. The last flow matches
// what a learning flow matches, and does not learn.
const pipeline = `
table=0,tcp actions=load:0x1->OXM_OF_METADATA[],ct(commit,table=22,zone=5)
table=22,priority=0,metadata=0x1 actions=resubmit(,23)
table=23,tcp actions=drop
table=24,priority=100,metadata=0x1,reg9=0/0x40 actions=resubmit(,25)
`

const learner = "cookie=0x10f95932,table=22,priority=100,metadata=0x1,ct_state=+new+trk,tcp,reg9=0/0x40,nw_dst=192.0.2.2 actions=" +
	"learn(table=78,idle_timeout=10,delete_learned,cookie=0x10f95932,OXM_OF_METADATA[],eth_type=0x800,NXM_OF_IP_SRC[]," +
	"ip_dst=192.0.2.2,nw_proto=6,load:0x1->NXM_NX_REG10[14])"

type bridge struct {
	*testing.T
	*ovndbtest.Switch
}

func newBridge(t *testing.T) *bridge {
	t.Setenv("PATH", filepath.Dir(ovndbtest.Binary(t, "ovs-ofctl"))+":"+os.Getenv("PATH"))
	b := &bridge{t, ovndbtest.StartSwitch(t)}
	b.vsctl("add-br", bridgeName, "--", "set", "Bridge", bridgeName, "datapath_type="+ovndbtest.Datapath(b.T))
	b.ofctl("del-flows")
	b.add(pipeline)
	return b
}

func (b *bridge) vsctl(args ...string) {
	b.Helper()
	ovndbtest.Command(b.T, "ovs-vsctl", append([]string{"--db=" + b.Endpoint(), "--timeout=20"}, args...)...)
}

func (b *bridge) ofctl(command string, args ...string) string {
	b.Helper()
	target := "unix:" + b.RunDir() + "/" + bridgeName + ".mgmt"
	return ovndbtest.Command(b.T, "ovs-ofctl", append([]string{"-OOpenFlow15", command, target}, args...)...)
}

func (b *bridge) add(flows string) {
	b.Helper()
	for flow := range strings.Lines(flows) {
		if flow = strings.TrimSpace(flow); flow != "" {
			b.ofctl("add-flow", flow)
		}
	}
}

// has waits until a table has as many flows with a text.
func (b *bridge) has(count int, text, table string) {
	b.Helper()
	poll.Eventually(b.T, 20*time.Second, func() error {
		if list := b.ofctl("dump-flows", "table="+table); strings.Count(list, text) != count {
			return fmt.Errorf("want %d with %q:\n%s", count, text, list)
		}
		return nil
	})
}

// connect sends the first packet of a client's connection, and checks that it is learned and goes on once.
func (b *bridge) connect(client int) {
	b.Helper()
	b.ofctl("del-flows", "table=23")
	b.add("table=23,tcp actions=drop")
	b.ofctl("packet-out", "in_port=local packet="+b.syn(client)+" actions=table")
	b.has(1, fmt.Sprintf("nw_src=192.0.2.%d", client), "78")
	b.has(1, "n_packets=1,", "23")
}

// syn returns a client's first packet in hexadecimal digits.
func (b *bridge) syn(client int) string {
	ip := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolTCP,
		SrcIP: net.IPv4(192, 0, 2, byte(client)), DstIP: net.IPv4(192, 0, 2, 2)}
	tcp := &layers.TCP{SrcPort: 12345, DstPort: 80, SYN: true, Window: 8192}
	ethernet := &layers.Ethernet{SrcMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, DstMAC: net.HardwareAddr{2, 0, 0, 0, 0, 2},
		EthernetType: layers.EthernetTypeIPv4}
	buffer := gopacket.NewSerializeBuffer()
	if err := errors.Join(tcp.SetNetworkLayerForChecksum(ip), gopacket.SerializeLayers(buffer,
		gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, ethernet, ip, tcp)); err != nil {
		b.Fatal(err)
	}
	return hex.EncodeToString(buffer.Bytes())
}

const ours = "cookie=0x57ef"

// A packet from which the switch learns a client's backend goes on, whatever comes and goes.
func TestLearningPacketsGoOn(t *testing.T) {
	b := newBridge(t)
	lost := make(chan struct{}, 1)
	keeper := learning.New(b.RunDir(), bridgeName, testr.New(t), func() { lost <- struct{}{} })
	keeper.Follow(t.Context(), 7)
	b.add(learner)
	keeper.Follow(t.Context(), 1, 7)
	b.has(2, ours, "22")
	b.connect(1)
	keeper.Follow(t.Context(), 1, 7) // it does already

	b.ofctl("del-flows") // ovn-controller starts
	b.add(pipeline + learner)
	b.has(2, ours, "22")
	b.connect(3)
	b.ofctl("del-flows", "table=22,cookie=0x57ef000000000000/0xffff000000000000")
	b.has(2, ours, "22")
	b.connect(4)

	b.add(strings.Replace(learner, "table=22", "table=30", 1)) // another version of OVN
	b.ofctl("del-flows", "table=22,cookie=0x10f95932/-1")
	b.has(0, ours, "22")
	b.has(2, ours, "30")
	b.has(0, ours, "24")

	loses := func() {
		t.Helper()
		select {
		case <-lost:
		case <-time.After(20 * time.Second):
			t.Fatal("the end of the connection is not reported")
		}
	}
	b.KillSwitch()
	loses()
	keeper.Follow(t.Context(), 1)
	loses()
	b.RunSwitch()
	poll.Eventually(t, 20*time.Second, func() error {
		conn, err := net.Dial("unix", filepath.Join(b.RunDir(), bridgeName+".mgmt"))
		if err == nil {
			conn.Close()
		}
		return err
	})
	keeper.Follow(t.Context(), 1)
	b.add(learner)
	b.has(2, ours, "22")
}
