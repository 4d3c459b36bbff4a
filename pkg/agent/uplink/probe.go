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
	// preflight bounds how long is looked for what answers before a move: ARP and ND ask three times, a second apart.
	preflight = 4 * time.Second
	// neighborInterval is how often the kernel's neighbour table is looked at, probeInterval how often a connection is tried.
	neighborInterval = 20 * time.Millisecond
	probeInterval    = 250 * time.Millisecond
	// discard is a port (RFC 863): a packet to it makes the kernel resolve its neighbour, and nobody minds it.
	discard = 9
)

// target is somebody who shall answer. Of those of a group one is enough.
type target struct {
	group    string
	address  netip.AddrPort
	neighbor bool // is asked by ARP or ND on the link; else by a TCP connection
}

// String names it in messages.
func (t target) String() string {
	if t.neighbor {
		return fmt.Sprintf("%s %s", t.group, t.address.Addr())
	}
	return fmt.Sprintf("%s %s", t.group, t.address)
}

// targets are the next hops of the link's default routes or those asked for, the API server, and the peers.
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

// answering are those of the targets that answer over the link now.
func answering(ctx context.Context, link string, all []target) []target {
	ctx, cancel := context.WithTimeout(ctx, preflight)
	defer cancel()
	var found []target
	for i, err := range ask(ctx, link, all) {
		if err == nil {
			found = append(found, all[i])
		}
	}
	return found
}

// probe asks until all groups have answered over the link, or ctx ends: then the error names those that have not.
func probe(ctx context.Context, link string, all []target) error {
	errs := ask(ctx, link, all)
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
		return fmt.Errorf("answered before and does not now: %s", strings.Join(silent, ", "))
	}
	return nil
}

// ask asks all at once; the error of one is nil when it answered. The first answer of a group ends the questions to the rest of it.
func ask(ctx context.Context, link string, all []target) []error {
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
				errs[i] = askNeighbor(groups[t.group], link, t.address)
			} else {
				errs[i] = askConnection(groups[t.group], t.address)
			}
			if errs[i] == nil {
				ends[t.group]()
			}
		})
	}
	wg.Wait()
	return errs
}

// askConnection takes a refusal for an answer: it comes from there.
func askConnection(ctx context.Context, to netip.AddrPort) error {
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

// askNeighbor has the kernel ask by ARP or ND, which is what its packets need. What it knew before is forgotten first.
func askNeighbor(ctx context.Context, name string, to netip.AddrPort) error {
	ticker := time.NewTicker(neighborInterval)
	defer ticker.Stop()
	err := errors.New("no answer to ARP or ND")
	asked := false
	for {
		found, linkErr := netlink.LinkByName(name)
		if linkErr != nil {
			return linkErr
		}
		state := neighborState(found.Attrs().Index, to.Addr())
		switch {
		case state&unix.NUD_PERMANENT != 0 || asked && state&unix.NUD_REACHABLE != 0:
			return nil
		case !asked || state&(unix.NUD_FAILED) != 0 || state == unix.NUD_NONE:
			forget(found.Attrs().Index, to.Addr())
			if sendErr := sendDiscard(ctx, name, to); sendErr != nil {
				err = sendErr
			}
			asked = true
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

// forget drops what the kernel knows of a neighbour; that it knows nothing is fine.
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
