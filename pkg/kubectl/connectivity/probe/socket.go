package probe

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// unfragmented makes a socket send packets whole or not at all, whatever path MTU the kernel has learned.
func unfragmented(conn *net.UDPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		v4 := unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE)
		v6 := unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE)
		if v4 != nil && v6 != nil { // a socket of one family refuses the other's option
			failed = errors.Join(v4, v6)
		}
	})
	return errors.Join(err, failed)
}

// linkMTU returns the MTU of the link with an address.
func linkMTU(address netip.Addr) (int, error) {
	links, err := net.Interfaces()
	if err != nil {
		return 0, err
	}
	for _, link := range links {
		addresses, err := link.Addrs()
		if err != nil {
			return 0, err
		}
		for _, a := range addresses {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().WithZone("") == address.Unmap().WithZone("") {
				return link.MTU, nil
			}
		}
	}
	return 0, fmt.Errorf("no link has the address %s", address)
}
