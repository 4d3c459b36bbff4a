package uplink

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/pkg/cni"
)

// host applies steps to this host.
type host struct {
	rows *rows // nil: no connection to Open vSwitch
	// failpoint is Config.failpoint. A death at one of these points leaves a move half done.
	failpoint func(point string)
	// left collects the errors of Open vSwitch that undoing has skipped.
	left error
}

// do applies the steps in order until one of them fails or ctx ends.
func (h *host) do(ctx context.Context, steps []Step) error {
	for _, step := range steps {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("before %q: %w", step, context.Cause(ctx))
		}
		if err := h.step(ctx, step); err != nil {
			return fmt.Errorf("%s: %w", step, err)
		}
		h.failpoint(step.String())
	}
	return nil
}

// doAll applies all steps, even after one has failed, because undoing must restore as much as it can.
func (h *host) doAll(ctx context.Context, steps []Step) error {
	var failed error
	for _, step := range steps {
		if err := h.step(ctx, step); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", step, err))
			continue
		}
		h.failpoint(step.String())
	}
	return failed
}

func (h *host) step(ctx context.Context, step Step) error {
	switch s := step.(type) {
	case Rows:
		return h.applyRows(ctx, s)
	case Features:
		return applyFeatures(s)
	case Guarded:
		if s.On {
			return cni.Guard(s.Link)
		}
		return cni.Unguard(s.Link)
	case Settings:
		return h.applySettings(ctx, s)
	case Promiscuous:
		return applyPromiscuous(s)
	case Carries:
		return h.carry(s.Link, s.Layer3)
	case RuleCopies:
		return h.applyRules(s)
	}
	return fmt.Errorf("unknown step %T", step)
}

// applyRows writes rows and waits until ovs-vswitchd has applied them. If a bridge cannot be removed, it takes the
// addresses and routes off the bridge, so that the link can have them again, and adds the error to left.
func (h *host) applyRows(ctx context.Context, s Rows) error {
	err := errNoSwitch
	if h.rows != nil {
		err = h.rows.apply(ctx, s)
	}
	if err == nil || s.Present {
		return err
	}
	h.left = errors.Join(h.left, err)
	return h.disarm(s.Bridge)
}

// disarm sets a bridge's link down and takes its addresses, routes and neighbours off, for a bridge that ovs-vswitchd
// does not remove. A missing link is not an error.
func (h *host) disarm(bridge string) error {
	found, err := netlink.LinkByName(bridge)
	var notFound netlink.LinkNotFoundError
	if errors.As(err, &notFound) {
		return nil
	} else if err != nil {
		return err
	}
	if err := netlink.LinkSetDown(found); err != nil {
		return err
	}
	return h.carry(bridge, Layer3{})
}

func applyFeatures(s Features) error {
	if len(s.On) == 0 {
		return nil
	}
	have, err := readFeatures(s.Link)
	if err != nil {
		return err
	}
	change := maps.Clone(s.On)
	maps.DeleteFunc(change, func(name string, on bool) bool { was, ok := have[name]; return !ok || was == on })
	if len(change) == 0 {
		return nil
	}
	tool, err := ethtool.NewEthtool()
	if err != nil {
		return fmt.Errorf("ethtool: %w", err)
	}
	defer tool.Close()
	return tool.Change(s.Link, change)
}

func applyPromiscuous(s Promiscuous) error {
	found, err := netlink.LinkByName(s.Link)
	switch {
	case err != nil:
		return err
	case found.Attrs().RawFlags&unix.IFF_PROMISC != 0 == s.On:
		return nil
	case s.On:
		return netlink.SetPromiscOn(found)
	}
	return netlink.SetPromiscOff(found)
}

func (h *host) applySettings(ctx context.Context, s Settings) error {
	found, err := netlink.LinkByName(s.Link)
	if err != nil {
		return err
	}
	if s.MTU > 0 && found.Attrs().MTU != s.MTU {
		if err := netlink.LinkSetMTU(found, s.MTU); err != nil {
			return fmt.Errorf("MTU %d: %w", s.MTU, err)
		}
		h.failpoint("MTU of " + s.Link)
	}
	if _, ipv6 := s.Sysctls[disableIPv6]; ipv6 {
		if err := netlink.LinkSetIP6AddrGenMode(found, s.AddrGenMode); err != nil {
			return fmt.Errorf("addrgenmode: %w", err)
		}
	}
	if err := h.applySysctls(s); err != nil {
		return err
	}
	switch {
	case s.Up:
		return netlink.LinkSetUp(found)
	case s.Down:
		return setDown(ctx, s.Link)
	}
	return nil
}

// setDown sets a link down after ovs-vswitchd has closed the link, or after removeTimeout. When ovs-vswitchd takes back
// the promiscuous mode of a link, it writes all flags as it last read them, and the link would come up again.
func setDown(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	ticker := time.NewTicker(linkInterval)
	defer ticker.Stop()
	for {
		found, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if found.Attrs().Promisc == 0 || ctx.Err() != nil {
			return netlink.LinkSetDown(found)
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

func (h *host) applySysctls(s Settings) error {
	for _, key := range sysctls {
		want, ok := s.Sysctls[key]
		if !ok {
			continue
		}
		path := sysctlPath(s.Link, key)
		have, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && strings.TrimSpace(string(have)) == want {
			continue
		}
		if err == nil {
			err = os.WriteFile(path, []byte(want), 0)
		}
		if err != nil {
			return fmt.Errorf("sysctl %s: %w", key, err)
		}
		h.failpoint("sysctl " + key + " of " + s.Link)
	}
	return nil
}

// carry gives the link exactly the wanted addresses, routes and neighbours, as far as the kernel permits. Routes that
// the kernel derives from an address come and go with the address.
func (h *host) carry(name string, want Layer3) error {
	found, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	on := link{found.Attrs().Index, name}
	if err := h.takeOff(on, want); err != nil {
		return err
	}
	have, err := readLayer3(on)
	if err != nil {
		return err
	}
	var failed error
	for _, m := range lacking(want.Addresses, have.Addresses, Message.addressKey) {
		if err := send(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, m.addressOn(on), unix.EEXIST); err != nil {
			failed = errors.Join(failed, fmt.Errorf("add address %s: %w", m.Text, err))
			continue
		}
		h.failpoint("address " + m.Text + " on " + name)
	}
	failed = errors.Join(failed, h.addRoutes(on, lacking(want.Routes, have.Routes, Message.routeKey)))
	for _, m := range want.Neighbors {
		if err := send(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, m.neighborOn(on)); err != nil {
			failed = errors.Join(failed, fmt.Errorf("add neighbour %s: %w", m.Text, err))
		}
	}
	return failed
}

// takeOff removes unwanted routes and addresses. It removes the last address first, because with the first address of a
// subnet the kernel also removes the others.
func (h *host) takeOff(on link, want Layer3) error {
	have, err := readLayer3(on)
	if err != nil {
		return err
	}
	for _, m := range lacking(have.Routes, want.Routes, Message.routeKey) {
		if m.ofKernel() {
			continue
		}
		if err := send(unix.RTM_DELROUTE, 0, m.deletedOn(on), unix.ESRCH); err != nil {
			return fmt.Errorf("remove route %s: %w", m.Text, err)
		}
		h.failpoint("no route " + m.Text + " on " + on.name)
	}
	for _, m := range slices.Backward(lacking(have.Addresses, want.Addresses, Message.addressKey)) {
		if err := send(unix.RTM_DELADDR, 0, m.addressOn(on), unix.EADDRNOTAVAIL); err != nil {
			return fmt.Errorf("remove address %s: %w", m.Text, err)
		}
		h.failpoint("no address " + m.Text + " on " + on.name)
	}
	return nil
}

// addRoutes adds routes in passes until a pass adds none, because the next hop of one route may be reachable only by
// another.
func (h *host) addRoutes(on link, routes []Message) error {
	for len(routes) > 0 {
		var left []Message
		var failed error
		for _, m := range routes {
			err := send(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_APPEND, m.routeOn(on), unix.EEXIST)
			if err != nil {
				left, failed = append(left, m), errors.Join(failed, fmt.Errorf("add route %s: %w", m.Text, err))
				continue
			}
			h.failpoint("route " + m.Text + " on " + on.name)
		}
		if len(left) == len(routes) {
			return failed
		}
		routes = left
	}
	return nil
}

// lacking returns the messages of want that are not in have, in their order.
func lacking(want, have []Message, key func(Message) string) []Message {
	present := map[string]bool{}
	for _, m := range have {
		present[key(m)] = true
	}
	var missing []Message
	for _, m := range want {
		if !present[key(m)] {
			missing = append(missing, m)
		}
	}
	return missing
}

func (h *host) applyRules(s RuleCopies) error {
	for _, m := range s.Rules {
		kind, flags, fine := unix.RTM_DELRULE, 0, unix.ENOENT
		if s.Present {
			kind, flags, fine = unix.RTM_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, unix.EEXIST
		}
		if err := send(kind, flags, m.ruleOn(link{name: s.Link}), fine); err != nil {
			return fmt.Errorf("%s: %w", m.Text, err)
		}
		h.failpoint(fmt.Sprintf("%s of %s %t", m.Text, s.Link, s.Present))
	}
	return nil
}
