package hostports

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/pkg/agent/desired"
)

// socket holds a port of the node in both families. It is bound and does not listen, so that a connection that reaches
// it without a translation is refused, as at a free port. Datagrams wait unread in the smallest possible buffer.
type socket struct {
	bound bool
	files []int
}

// bind binds a port at all addresses of the node, without SO_REUSEADDR: it fails if any socket of the node has the port
// at any address, and no other socket gets it. A protocol or family that the kernel lacks needs no socket, because no
// process has one.
func bind(at desired.NodePort) (*socket, error) {
	kinds := map[string]struct{ kind, protocol int }{
		"tcp": {unix.SOCK_STREAM, unix.IPPROTO_TCP}, "udp": {unix.SOCK_DGRAM, unix.IPPROTO_UDP},
		"sctp": {unix.SOCK_STREAM, unix.IPPROTO_SCTP},
	}
	want, ok := kinds[at.Protocol]
	if !ok {
		return nil, fmt.Errorf("protocol %q has no ports", at.Protocol)
	}
	s := &socket{bound: true}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		file, err := unix.Socket(family, want.kind|unix.SOCK_CLOEXEC, want.protocol)
		if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.ESOCKTNOSUPPORT) {
			continue
		}
		if err != nil {
			s.close()
			return nil, fmt.Errorf("socket of port %s: %w", at, err)
		}
		s.files = append(s.files, file)
		if err := bindTo(file, family, at); err != nil {
			s.close()
			return nil, fmt.Errorf("port %s: %w", at, err)
		}
	}
	return s, nil
}

func bindTo(file, family int, at desired.NodePort) error {
	if err := unix.SetsockoptInt(file, unix.SOL_SOCKET, unix.SO_RCVBUF, 0); err != nil { // the kernel's minimum
		return err
	}
	if family == unix.AF_INET {
		return unix.Bind(file, &unix.SockaddrInet4{Port: int(at.Port)})
	}
	if err := unix.SetsockoptInt(file, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
		return err
	}
	return unix.Bind(file, &unix.SockaddrInet6{Port: int(at.Port)})
}

func (s *socket) close() {
	for _, file := range s.files {
		_ = unix.Close(file) // it has nothing to write
	}
	s.files = nil
}
