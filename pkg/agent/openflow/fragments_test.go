package openflow_test

import (
	"encoding/binary"
	"encoding/hex"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
)

// TestFragmentsHaveNoPorts on the userspace datapath, not even the first, also when conntrack has put them together: each goes on by itself. So
// balancers that match the packet's port, as OVN's do, never see a connection that begins with a datagram in fragments. Conntrack's record has
// the port for all of them.
func TestFragmentsHaveNoPorts(t *testing.T) {
	s := newSwitch(t)
	change(t, s, "add-port", bridgeName, "client", "--", "set", "Interface", "client", "type=internal", "ofport_request=1",
		"--", "add-port", bridgeName, "backend", "--", "set", "Interface", "backend", "type=internal", "ofport_request=2")
	for name, test := range map[string]struct {
		match string
		want  int // fragments that are balanced, of two
	}{
		"the packet's port": {"udp,nw_dst=10.96.0.7,tp_dst=90", 0},
		"conntrack's port":  {"ip,ct_nw_dst=10.96.0.7,ct_nw_proto=17,ct_tp_dst=90", 2},
	} {
		t.Run(name, func(t *testing.T) {
			ofctl(t, s, "del-flows")
			for _, flow := range []string{
				"table=0,ip,actions=ct(table=1,zone=1,nat)",
				"table=1,priority=2,ct_state=+new+trk," + test.match + ",actions=ct(commit,table=2,zone=1,nat(dst=10.0.0.2:8081))",
				"table=1,priority=1,actions=drop", "table=2,actions=output:2",
			} {
				ofctl(t, s, "add-flow", flow)
			}
			for _, fragment := range datagram() {
				ofctl(t, s, "packet-out", "in_port=1,packet="+fragment+",actions=table")
			}
			if balanced := passed(t, s, 2); balanced != test.want {
				t.Errorf("%d of 2 fragments are balanced, want %d:\n%s", balanced, test.want, ofctl(t, s, "dump-flows"))
			}
		})
	}
}

var packets = regexp.MustCompile(`table=1, n_packets=(\d+),.* priority=(\d)`)

// passed waits until table 1 has seen as many packets, and returns how many of them had the higher priority.
func passed(t *testing.T, s *ovndbtest.Switch, all int) (balanced int) {
	t.Helper()
	for range 100 {
		seen := 0
		for _, match := range packets.FindAllStringSubmatch(ofctl(t, s, "dump-flows"), -1) {
			n, err := strconv.Atoi(match[1])
			if err != nil {
				t.Fatal(err)
			}
			if seen += n; match[2] == "2" {
				balanced = n
			}
		}
		if seen >= all {
			return balanced
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("%d packets have not come behind conntrack:\n%s", all, ofctl(t, s, "dump-flows"))
	return 0
}

// datagram is one of 2,000 bytes for the balancer, in two frames.
func datagram() (frames []string) {
	const header, first = 20, 1416
	udp := make([]byte, 2008)
	for i, field := range []uint16{40000, 90, uint16(len(udp)), 0} { // ports, length, no checksum
		binary.BigEndian.PutUint16(udp[2*i:], field)
	}
	for offset, payload := range map[int][]byte{0: udp[:first], first: udp[first:]} {
		ip := []byte{0x45, 0, 0, 0, 0, 7, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 96, 0, 7}
		binary.BigEndian.PutUint16(ip[2:], uint16(header+len(payload)))
		flags := uint16(offset / 8)
		if offset == 0 {
			flags |= 0x2000 // more fragments
		}
		binary.BigEndian.PutUint16(ip[6:], flags)
		binary.BigEndian.PutUint16(ip[10:], checksum(ip))
		ethernet := []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0}
		frames = append(frames, hex.EncodeToString(append(append(ethernet, ip...), payload...)))
	}
	return frames
}

// checksum is IPv4's (RFC 1071) of a header in which it is still zero.
func checksum(header []byte) uint16 {
	sum := uint32(0)
	for i := 0; i < len(header); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(header[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
