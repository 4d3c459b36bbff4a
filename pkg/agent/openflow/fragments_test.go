package openflow_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/test/poll"
)

// In the userspace datapath no fragment has ports, not even the first one, and not even after conntrack reassembled the
// packet: each fragment continues separately. A balancer that matches the packet's ports, as OVN's do, therefore never
// sees a connection that begins with a fragmented datagram. Conntrack's record has the port for all fragments. In the
// kernel's datapath the whole packet continues, with its ports.
func TestFragmentsHaveNoPorts(t *testing.T) {
	s := newSwitch(t)
	change(t, s, "add-port", bridgeName, "client", "--", "set", "Interface", "client", "type=internal", "ofport_request=1",
		"--", "add-port", bridgeName, "backend", "--", "set", "Interface", "backend", "type=internal", "ofport_request=2")
	for name, test := range map[string]struct {
		match             string
		userspace, kernel int // what is balanced: of two fragments, and of one packet
	}{
		"the packet's port": {"udp,nw_dst=10.96.0.7,tp_dst=90", 0, 1},
		"conntrack's port":  {"ip,ct_nw_dst=10.96.0.7,ct_nw_proto=17,ct_tp_dst=90", 2, 1},
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
			for _, fragment := range fragments(protocolUDP, udp()) {
				ofctl(t, s, "packet-out", "in_port=1,packet="+fragment+",actions=table")
			}
			expectPassed(t, s, test.userspace, test.kernel)
		})
	}
}

// In the userspace datapath no fragment has an ICMP type, not even the first one, and not even after conntrack
// reassembled the packet. An OVN router answers echo requests with a flow that matches the type, so that it never
// answers a fragmented one. In the kernel's datapath the whole packet continues, with its type.
func TestFragmentsAreNoEchoRequests(t *testing.T) {
	s := newSwitch(t)
	change(t, s, "add-port", bridgeName, "client", "--", "set", "Interface", "client", "type=internal", "ofport_request=1")
	for name, test := range map[string]struct {
		match             string
		userspace, kernel int // what matches: of two fragments, and of one packet
	}{
		"the type of an echo request": {"icmp,icmp_type=8,icmp_code=0", 0, 1},
		"zero":                        {"icmp,icmp_type=0,icmp_code=0", 2, 0},
		"conntrack's protocol":        {"ip,ct_nw_dst=10.96.0.7,ct_nw_proto=1", 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			ofctl(t, s, "del-flows")
			for _, flow := range []string{
				"table=0,ip,actions=ct(table=1,zone=1)",
				"table=1,priority=2,ct_state=+new+trk," + test.match + ",actions=drop",
				"table=1,priority=1,actions=drop",
			} {
				ofctl(t, s, "add-flow", flow)
			}
			for _, fragment := range fragments(protocolICMP, request()) {
				ofctl(t, s, "packet-out", "in_port=1,packet="+fragment+",actions=table")
			}
			expectPassed(t, s, test.userspace, test.kernel)
		})
	}
}

// IP protocol numbers (IANA).
const (
	protocolICMP = 1
	protocolUDP  = 17
)

var packets = regexp.MustCompile(`table=1, n_packets=(\d+),.* priority=(\d)`)

// expectPassed waits until conntrack has passed on both fragments, in the userspace datapath, or the packet, in the kernel's.
// It compares how many of them matched the flow of higher priority.
func expectPassed(t *testing.T, s *ovndbtest.Switch, userspace, kernel int) {
	t.Helper()
	all, want := 2, userspace
	if ovndbtest.OnKernel(t) {
		all, want = 1, kernel
	}
	if matched := passed(t, s, all); matched != want {
		t.Errorf("%d of %d match, want %d:\n%s", matched, all, want, ofctl(t, s, "dump-flows"))
	}
}

// passed waits until table 1 has counted that many packets, and returns how many of them matched the flow of higher
// priority.
func passed(t *testing.T, s *ovndbtest.Switch, all int) (balanced int) {
	t.Helper()
	poll.Eventually(t, time.Minute, func() error {
		seen, flows := 0, ofctl(t, s, "dump-flows")
		for _, match := range packets.FindAllStringSubmatch(flows, -1) {
			n, err := strconv.Atoi(match[1])
			if err != nil {
				t.Fatal(err)
			}
			if seen += n; match[2] == "2" {
				balanced = n
			}
		}
		if seen < all {
			return fmt.Errorf("conntrack passed %d packets on, want %d:\n%s", seen, all, flows)
		}
		return nil
	})
	return balanced
}

// udp returns a datagram with 2,000 bytes of data for the balancer.
func udp() []byte {
	udp := make([]byte, 2008)
	for i, field := range []uint16{40000, 90, uint16(len(udp)), 0} { // ports, length, no checksum
		binary.BigEndian.PutUint16(udp[2*i:], field)
	}
	return udp
}

// request returns an echo request with 2,000 bytes of data.
func request() []byte {
	icmp := make([]byte, 2008)
	icmp[0] = 8
	binary.BigEndian.PutUint16(icmp[2:], checksum(icmp))
	return icmp
}

// fragments returns a packet as two frames.
func fragments(protocol byte, packet []byte) (frames []string) {
	const header, first = 20, 1416
	for offset, payload := range map[int][]byte{0: packet[:first], first: packet[first:]} {
		ip := []byte{0x45, 0, 0, 0, 0, 7, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 96, 0, 7}
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

// checksum computes the checksum of RFC 1071. The length must be even, and the checksum field zero.
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
