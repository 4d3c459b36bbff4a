package neighbour

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

const (
	// probes is how many times the segment is probed, interval the time between (RFC 5227 has the number and waits some
	// seconds, which a pod would wait as well).
	probes   = 3
	interval = 200 * time.Millisecond
	// rounds is how many times an answered probe is repeated, pause the time between. An address that has just moved
	// may be answered by the node where it was.
	rounds = 3
	pause  = time.Second
)

// Segment is a segment on which addresses are probed.
type Segment struct {
	// Link is a link of the host that leads to the segment.
	Link string
	// VLAN of the segment there; 0: none.
	VLAN int
	// Own are MACs whose answers do not count, besides that of the link.
	Own []net.HardwareAddr
}

// UsedError says who uses an address.
type UsedError struct {
	Address netip.Addr
	MAC     net.HardwareAddr
	Link    string
	VLAN    int
}

// Error names the address and its user.
func (e *UsedError) Error() string {
	where := "link " + e.Link
	if e.VLAN != 0 {
		where += fmt.Sprintf(", VLAN %d", e.VLAN)
	}
	return fmt.Sprintf("address %s is used already: %s answers for it on the segment of %s", e.Address, e.MAC, where)
}

// Probe finds out whether a host of the segment uses addresses. The error is a *UsedError if a host does, and keeps
// answering.
func Probe(ctx context.Context, on Segment, addresses []netip.Addr) error {
	socket, err := open(on)
	if err != nil {
		return fmt.Errorf("probe %v on link %s: %w", addresses, on.Link, err)
	}
	defer socket.file.Close()
	for round := 1; ; round++ {
		err := socket.probe(ctx, addresses, first)
		if !errors.As(err, new(*UsedError)) || round == rounds {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// Users returns the hosts of the segment that use addresses, each with its MAC, and keep answering. If several hosts use an address, the
// smallest MAC counts, so that the result is the same each time.
func Users(ctx context.Context, on Segment, addresses []netip.Addr) (map[netip.Addr]net.HardwareAddr, error) {
	socket, err := open(on)
	if err != nil {
		return nil, fmt.Errorf("probe %v on link %s: %w", addresses, on.Link, err)
	}
	defer socket.file.Close()
	for round := 1; ; round++ {
		found := map[netip.Addr]net.HardwareAddr{}
		err := socket.probe(ctx, addresses, func(used *UsedError) error {
			if had, ok := found[used.Address]; !ok || bytes.Compare(used.MAC, had) < 0 {
				found[used.Address] = used.MAC
			}
			return nil
		})
		if err != nil || len(found) == 0 || round == rounds {
			return found, err
		}
		addresses = slices.Collect(maps.Keys(found))
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
}

// first ends a probe at the first answer.
func first(used *UsedError) error { return used }

// Answers reports whether a host of the segment answers for an address. The error says why that cannot be found out.
func Answers(ctx context.Context, on Segment, address netip.Addr) (bool, error) {
	socket, err := open(on)
	if err != nil {
		return false, fmt.Errorf("probe %s on link %s: %w", address, on.Link, err)
	}
	defer socket.file.Close()
	err = socket.probe(ctx, []netip.Addr{address}, first)
	if errors.As(err, new(*UsedError)) {
		return true, nil
	}
	return false, err
}

// socket exchanges frames with a segment.
type socket struct {
	Segment
	file  *os.File // a packet socket
	index int
	mac   net.HardwareAddr
}

func open(on Segment) (*socket, error) {
	link, err := net.InterfaceByName(on.Link)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("packet socket: %w", err)
	}
	err = errors.Join(unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1), attachFilter(fd),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: networkOrder(unix.ETH_P_ALL), Ifindex: link.Index}))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("packet socket: %w", err), unix.Close(fd))
	}
	return &socket{Segment: on, file: os.NewFile(uintptr(fd), "packet socket"), index: link.Index, mac: link.HardwareAddr}, nil
}

// attachFilter lets a packet socket receive only ARP and ICMPv6, so that the link's traffic does not displace answers.
func attachFilter(fd int) error {
	program, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: 12, Size: 2}, // the EtherType
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.ETH_P_ARP, SkipTrue: 3},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.ETH_P_IPV6, SkipTrue: 3},
		bpf.LoadAbsolute{Off: 14 + 6, Size: 1}, // the next header
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.IPPROTO_ICMPV6, SkipTrue: 1},
		bpf.RetConstant{Val: 1 << 16},
		bpf.RetConstant{},
	})
	if err != nil {
		return err
	}
	filters := make([]unix.SockFilter, len(program))
	for i, in := range program {
		filters[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	attached := unix.SockFprog{Len: uint16(len(filters)), Filter: &filters[0]}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &attached)
}

// Send sends frames by a link of the host.
func Send(link string, frames ...[]byte) error {
	socket, err := open(Segment{Link: link})
	if err != nil {
		return err
	}
	defer socket.file.Close()
	raw, err := socket.file.SyscallConn()
	if err != nil {
		return err
	}
	for _, frame := range frames {
		if err := socket.send(raw, frame); err != nil {
			return err
		}
	}
	return nil
}

func (s *socket) send(raw syscall.RawConn, frame []byte) error {
	var failed error
	err := raw.Control(func(fd uintptr) {
		failed = unix.Sendto(int(fd), frame, 0, &unix.SockaddrLinklayer{Ifindex: s.index})
	})
	return errors.Join(err, failed)
}

func networkOrder(n uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, n))
}

// probe sends the probes and waits for answers after each. An error of answered ends it.
func (s *socket) probe(ctx context.Context, addresses []netip.Addr, answered func(*UsedError) error) error {
	raw, err := s.file.SyscallConn()
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = s.file.SetReadDeadline(time.Unix(1, 0)) })()
	for range probes {
		for _, address := range addresses {
			frame, err := probeFor(address, s.mac)
			if err != nil {
				return err
			}
			if err := s.send(raw, tagged(frame, s.VLAN)); err != nil {
				return fmt.Errorf("probe %s on link %s: %w", address, s.Link, err)
			}
		}
		if err := s.file.SetReadDeadline(time.Now().Add(interval)); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := s.await(raw, addresses, answered); err != nil {
			return err
		}
	}
	return nil
}

// await reads frames until the deadline. It passes each answer to answered and returns the first error of answered.
func (s *socket) await(raw interface {
	Read(func(fd uintptr) bool) error
}, addresses []netip.Addr, answered func(*UsedError) error) error {
	for frame, control := make([]byte, 1<<16), make([]byte, 256); ; {
		var n, controls int
		var failed error
		err := raw.Read(func(fd uintptr) bool {
			n, controls, _, _, failed = unix.Recvmsg(int(fd), frame, control, 0)
			return !errors.Is(failed, unix.EAGAIN)
		})
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err := errors.Join(err, failed); err != nil {
			return fmt.Errorf("read from link %s: %w", s.Link, err)
		}
		address, mac, ok := Claim(frame[:n])
		if !ok || !slices.Contains(addresses, address) || vlanOf(control[:controls]) != s.VLAN || s.isOwn(mac) {
			continue
		}
		if err := answered(&UsedError{Address: address, MAC: mac, Link: s.Link, VLAN: s.VLAN}); err != nil {
			return err
		}
	}
}

func (s *socket) isOwn(mac net.HardwareAddr) bool {
	return slices.ContainsFunc(append(s.Own, s.mac), func(own net.HardwareAddr) bool { return slices.Equal(own, mac) })
}

// vlanOf returns the VLAN of a received frame, whose tag the kernel has removed (struct tpacket_auxdata); 0: none.
func vlanOf(control []byte) int {
	const auxiliaryLength, statusVLAN, vlanMask = 20, 0x10, 0xfff
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return 0
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_PACKET && m.Header.Type == unix.PACKET_AUXDATA && len(m.Data) >= auxiliaryLength &&
			binary.NativeEndian.Uint32(m.Data)&statusVLAN != 0 {
			return int(binary.NativeEndian.Uint16(m.Data[16:])) & vlanMask
		}
	}
	return 0
}
