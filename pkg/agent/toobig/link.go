package toobig

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// link relays the messages that the host sends by one of its links.
type link struct {
	file  *os.File // a packet socket
	index int
	limit limit
}

// openLink opens the link with an index.
func openLink(index int) (source, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("packet socket: %w", err)
	}
	filter := quotingFragments()
	program := &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	address := &unix.SockaddrLinklayer{Protocol: networkOrder(unix.ETH_P_ALL), Ifindex: index}
	err = errors.Join(unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, program), unix.Bind(fd, address))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("packet socket of link %d: %w", index, err), unix.Close(fd))
	}
	return &link{file: os.NewFile(uintptr(fd), "packet socket"), index: index}, nil
}

func networkOrder(n uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, n))
}

// quotingFragments returns a packet filter that passes outgoing Packet Too Big messages that quote a fragment.
func quotingFragments() []unix.SockFilter {
	const (
		packetType    = 1<<32 - 0x1000 + 4 // SKF_AD_OFF + SKF_AD_PKTTYPE
		ofEthernet    = 12
		ofICMP        = ethernetLength + ipLength
		maximum       = 1 << 16
		nothing       = 0
		loadByte      = unix.BPF_LD | unix.BPF_B | unix.BPF_ABS
		loadHalf      = unix.BPF_LD | unix.BPF_H | unix.BPF_ABS
		jumpIfEqual   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		returnLength  = unix.BPF_RET | unix.BPF_K
		quotedPackets = ofICMP + upperLength
	)
	tests := []struct {
		load          uint16
		offset, value uint32
	}{
		{loadByte, packetType, unix.PACKET_OUTGOING}, {loadHalf, ofEthernet, unix.ETH_P_IPV6},
		{loadByte, ethernetLength + ipNext, protocolICMP}, {loadByte, ofICMP, typeTooBig},
		{loadByte, quotedPackets + ipNext, protocolFragment},
	}
	var program []unix.SockFilter
	for i, test := range tests {
		toEnd := uint8(2*(len(tests)-i-1) + 1) // past the other tests and the return that passes the packet
		program = append(program, unix.SockFilter{Code: test.load, K: test.offset},
			unix.SockFilter{Code: jumpIfEqual, Jf: toEnd, K: test.value})
	}
	return append(program, unix.SockFilter{Code: returnLength, K: maximum},
		unix.SockFilter{Code: returnLength, K: nothing})
}

func (l *link) Close() error { return l.file.Close() }

func (l *link) relay() error {
	raw, err := l.file.SyscallConn()
	if err != nil {
		return err
	}
	buffer := make([]byte, 1<<16)
	for {
		var n int
		var failed error
		if err := raw.Read(func(fd uintptr) bool {
			n, _, failed = unix.Recvfrom(int(fd), buffer, 0)
			return !errors.Is(failed, unix.EAGAIN)
		}); err != nil {
			return err
		}
		if errors.Is(failed, unix.ENETDOWN) { // reported once; the socket works again when the link comes up
			continue
		}
		if failed != nil {
			return failed
		}
		if err := l.resend(buffer[:n], raw.Control); err != nil {
			return err
		}
	}
}

// resend sends a message again that quotes the whole packet instead of a fragment.
func (l *link) resend(frame []byte, control func(func(fd uintptr)) error) error {
	m, ok := readMessage(frame)
	if !ok || !l.limit.allows() {
		return nil
	}
	var failed error
	err := control(func(fd uintptr) {
		failed = unix.Sendto(int(fd), m.translated(m.sender(), frame[:6]), 0, &unix.SockaddrLinklayer{Ifindex: l.index})
	})
	return errors.Join(err, failed)
}
