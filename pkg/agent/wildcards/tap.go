package wildcards

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// largest is the largest IP packet, in bytes.
const largest = 1 << 16

// tap receives the DNS messages that cross any link of the network namespace.
type tap struct {
	file *os.File // a packet socket
}

func openTap() (*tap, error) {
	program, err := bpf.Assemble(filter())
	if err != nil {
		return nil, err
	}
	// The protocol is 0 until the filter is in place, so that no other packet comes before.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("packet socket: %w", err)
	}
	filters := make([]unix.SockFilter, len(program))
	for i, in := range program {
		filters[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	err = errors.Join(
		unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filters)), Filter: &filters[0]}),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL))}))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("packet socket: %w", err), unix.Close(fd))
	}
	return &tap{os.NewFile(uintptr(fd), "packet socket")}, nil
}

func (t *tap) close() { _ = t.file.Close() }

// run passes each message until the tap is closed. sent means that the host sent the packet. The message is valid during
// the call.
func (t *tap) run(take func(p packet, sent bool)) error {
	raw, err := t.file.SyscallConn()
	if err != nil {
		return err
	}
	buffer := make([]byte, largest)
	for {
		var n int
		var from unix.Sockaddr
		var failed error
		if err := raw.Read(func(fd uintptr) bool {
			n, from, failed = unix.Recvfrom(int(fd), buffer, 0)
			return !errors.Is(failed, unix.EAGAIN)
		}); err != nil {
			return err
		}
		if errors.Is(failed, unix.ENETDOWN) { // some link went down; the others go on
			continue
		}
		if failed != nil {
			return failed
		}
		if way, ok := from.(*unix.SockaddrLinklayer); ok {
			if p, ok := read(way.Ifindex, buffer[:n]); ok {
				take(p, way.Pkttype == unix.PACKET_OUTGOING)
			}
		}
	}
}

// filter passes packets of UDP and TCP from or to the port of DNS, from their IP header on. It passes no fragments,
// because a packet socket does not reassemble them.
func filter() []bpf.Instruction {
	const (
		fragmentAt   = 6
		fragmentMask = 0x3fff // more fragments, and the offset
		all          = largest
	)
	// Jumps count the instructions that they skip.
	return []bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtProto}, // 0
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.ETH_P_IPV6, SkipTrue: 9},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.ETH_P_IP, SkipTrue: 16},
		bpf.LoadAbsolute{Off: fragmentAt, Size: 2}, // 3: IPv4
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: fragmentMask, SkipTrue: 14},
		bpf.LoadAbsolute{Off: protocolAt, Size: 1},
		bpf.LoadMemShift{Off: 0}, // X is the header's length
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: udp, SkipTrue: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: tcp, SkipTrue: 10},
		bpf.LoadIndirect{Off: 0, Size: 2},
		bpf.Jump{Skip: 5},
		bpf.LoadAbsolute{Off: nextAt, Size: 1}, // 11: IPv6
		bpf.LoadConstant{Dst: bpf.RegX, Val: lengthIPv6},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: udp, SkipTrue: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: tcp, SkipTrue: 4},
		bpf.LoadIndirect{Off: 0, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: dnsPort, SkipTrue: 3}, // 16: the source port
		bpf.LoadIndirect{Off: 2, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: dnsPort, SkipTrue: 1},
		bpf.RetConstant{Val: 0},
		bpf.RetConstant{Val: all}, // 20
	}
}
