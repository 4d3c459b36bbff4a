package uplink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	// preflight limits the search for answering targets before a move. ARP and ND send three requests, a second apart.
	preflight = 4 * time.Second
	// neighborInterval is the time between reads of the kernel's neighbour table.
	neighborInterval = 20 * time.Millisecond
	// probeInterval is the time between attempts to connect.
	probeInterval = 250 * time.Millisecond
	// discard is the discard port (RFC 863). A packet to it makes the kernel resolve the neighbour and has no other effect.
	discard = 9
)

// target is an address to probe. A group of targets passes when any one of them answers.
type target struct {
	group    string
	address  netip.AddrPort
	neighbor bool // probe by ARP or ND on the link instead of a TCP connection
}

// String returns the target's name for messages.
func (t target) String() string {
	if t.neighbor {
		return fmt.Sprintf("%s %s", t.group, t.address.Addr())
	}
	return fmt.Sprintf("%s %s", t.group, t.address)
}

// targets returns the targets of a request: the next hops, the API server and the peers. Without requested next hops it
// uses the gateways of the link's default routes.
func targets(s Snapshot, req Request) []target {
	var found []target
	hops := map[netip.Addr]bool{}
	for _, hop := range req.NextHops {
		hops[hop] = true
	}
	for _, route := range s.Routes {
		if hop, ok := route.gateway(); ok && len(req.NextHops) == 0 {
			hops[hop] = true
		}
	}
	for hop := range hops {
		found = append(found, target{"gateway " + hop.String(), netip.AddrPortFrom(hop, discard), true})
	}
	if req.APIServer.IsValid() {
		found = append(found, target{"API server", req.APIServer, false})
	}
	for _, peer := range req.Peers {
		found = append(found, target{"peer", peer, false})
	}
	return found
}

// answering returns the targets that answer over the link now.
func answering(ctx context.Context, link string, all []target) []target {
	ctx, cancel := context.WithTimeout(ctx, preflight)
	defer cancel()
	var found []target
	for i, err := range probeAll(ctx, link, all) {
		if err == nil {
			found = append(found, all[i])
		}
	}
	return found
}

// probe retries until all groups have answered over the link or ctx ends. The error lists the targets of groups that have
// not answered.
func probe(ctx context.Context, link string, all []target) error {
	errs := probeAll(ctx, link, all)
	answered := map[string]bool{}
	for i, t := range all {
		answered[t.group] = answered[t.group] || errs[i] == nil
	}
	var silent []string
	for i, t := range all {
		if !answered[t.group] {
			silent = append(silent, fmt.Sprintf("%s (%v)", t, errs[i]))
		}
	}
	if len(silent) > 0 {
		return fmt.Errorf("targets that answered before the move do not answer now: %s", strings.Join(silent, ", "))
	}
	return nil
}

// probeAll probes all targets at the same time and returns one error per target, nil if it answered. The first answer of a
// group ends the probes of its other targets.
func probeAll(ctx context.Context, link string, all []target) []error {
	errs := make([]error, len(all))
	groups := map[string]context.Context{}
	ends := map[string]context.CancelFunc{}
	for _, t := range all {
		if groups[t.group] == nil {
			groups[t.group], ends[t.group] = context.WithCancel(ctx)
			defer ends[t.group]()
		}
	}
	var wg sync.WaitGroup
	for i, t := range all {
		wg.Go(func() {
			if t.neighbor {
				errs[i] = probeNeighbor(groups[t.group], link, t.address)
			} else {
				errs[i] = probeConnection(groups[t.group], t.address)
			}
			if errs[i] == nil {
				ends[t.group]()
			}
		})
	}
	wg.Wait()
	return errs
}

// probeConnection retries a TCP connection until ctx ends. A refusal counts as an answer.
func probeConnection(ctx context.Context, to netip.AddrPort) error {
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for {
		attempt, cancel := context.WithTimeout(ctx, 4*probeInterval)
		conn, err := (&net.Dialer{}).DialContext(attempt, "tcp", to.String())
		cancel()
		if err == nil {
			return conn.Close()
		}
		if errors.Is(err, unix.ECONNREFUSED) {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-ticker.C:
		}
	}
}

// probeNeighbor makes the kernel resolve a neighbour by ARP or ND, as for its own packets. It removes an old entry first.
func probeNeighbor(ctx context.Context, name string, to netip.AddrPort) error {
	ticker := time.NewTicker(neighborInterval)
	defer ticker.Stop()
	err := errors.New("no answer to ARP or ND")
	sent := false
	for {
		found, linkErr := netlink.LinkByName(name)
		if linkErr != nil {
			return linkErr
		}
		state := neighborState(found.Attrs().Index, to.Addr())
		switch {
		case state&unix.NUD_PERMANENT != 0 || sent && state&unix.NUD_REACHABLE != 0:
			return nil
		case !sent || state&(unix.NUD_FAILED) != 0 || state == unix.NUD_NONE:
			forget(found.Attrs().Index, to.Addr())
			if sendErr := sendDiscard(ctx, name, to); sendErr != nil {
				err = sendErr
			}
			sent = true
		}
		select {
		case <-ctx.Done():
			return err
		case <-ticker.C:
		}
	}
}

func neighborState(index int, address netip.Addr) int {
	list, err := netlink.NeighList(index, familyOf(address))
	if err != nil {
		return unix.NUD_NONE
	}
	for _, n := range list {
		if have, ok := netip.AddrFromSlice(n.IP); ok && have.Unmap() == address.WithZone("") {
			return n.State
		}
	}
	return unix.NUD_NONE
}

func familyOf(address netip.Addr) int {
	if address.Is4() {
		return netlink.FAMILY_V4
	}
	return netlink.FAMILY_V6
}

// forget removes the kernel's entry of a neighbour. It ignores the error for a missing entry.
func forget(index int, address netip.Addr) {
	_ = netlink.NeighDel(&netlink.Neigh{LinkIndex: index, Family: familyOf(address), IP: address.AsSlice()})
}

// sendDiscard sends an empty datagram over the link.
func sendDiscard(ctx context.Context, name string, to netip.AddrPort) error {
	if to.Addr().IsLinkLocalUnicast() && to.Addr().Is6() {
		to = netip.AddrPortFrom(to.Addr().WithZone(name), to.Port())
	}
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		var bindErr error
		err := raw.Control(func(fd uintptr) { bindErr = unix.BindToDevice(int(fd), name) })
		return errors.Join(err, bindErr)
	}}
	conn, err := dialer.DialContext(ctx, "udp", to.String())
	if err != nil {
		return err
	}
	_, err = conn.Write(nil)
	return errors.Join(err, conn.Close())
}
