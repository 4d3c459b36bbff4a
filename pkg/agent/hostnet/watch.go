package hostnet

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Uplinks are what Watch watches besides the named link.
type Uplinks struct {
	Links  func() []string    // with their addresses and routes
	Others func(netlink.Link) // receives each other link that was added or changed; may be nil
}

// Watch calls changed once at the start and whenever the named link, a link of uplinks, an address or route of these
// links, an address of any link that is not link-local, a default route, Weft's rules and tables, or forwarding may have changed. It
// returns when ctx ends, or with an error if the kernel refuses a subscription.
func Watch(ctx context.Context, linkName string, uplinks Uplinks, changed func()) error {
	for ctx.Err() == nil {
		if err := watch(ctx, linkName, uplinks, changed); err != nil {
			return fmt.Errorf("watch link %s: %w", linkName, err)
		}
	}
	return nil
}

// watch returns nil when ctx ends, and when the kernel ends a subscription because its socket overflowed, for example
// when many pods start at once.
func watch(ctx context.Context, linkName string, uplinks Uplinks, changed func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	links, addresses, routes := make(chan netlink.LinkUpdate, 64), make(chan netlink.AddrUpdate, 64), make(chan netlink.RouteUpdate, 64)
	if err := netlink.LinkSubscribe(links, ctx.Done()); err != nil {
		return err
	}
	defer drain(links)
	if err := netlink.AddrSubscribe(addresses, ctx.Done()); err != nil {
		return err
	}
	defer drain(addresses)
	if err := netlink.RouteSubscribe(routes, ctx.Done()); err != nil {
		return err
	}
	defer drain(routes)
	others, err := subscribeOthers(ctx)
	if err != nil {
		return err
	}
	defer drain(others)

	watched := watchedLinks{uplinks: uplinks.Links, indexes: map[string]int{linkName: 0}}
	changed() // no subscription reported earlier changes
	for {
		concerned, ok := false, true
		select {
		case <-ctx.Done():
			return nil
		case u, open := <-links:
			if !open {
				return nil
			}
			concerned = watched.updateLink(u.Link.Attrs())
			if !concerned && uplinks.Others != nil && u.Header.Type == unix.RTM_NEWLINK {
				uplinks.Others(u.Link)
			}
		case u, open := <-addresses:
			ok, concerned = open, !isLinkLocal(u.LinkAddress) || watched.has(u.LinkIndex)
		case u, open := <-routes:
			ok, concerned = open, isOwnTable(u) && spoils(u) || !isOwnTable(u) && (isDefault(u.Dst) || watched.has(u.LinkIndex))
		case m, open := <-others:
			ok, concerned = open, open && (losesRule(m) || watched.stops(m))
		}
		if !ok {
			return nil
		}
		if concerned {
			changed()
		}
	}
}

// isOwnTable reports whether a route is in a table that only Weft uses.
func isOwnTable(u netlink.RouteUpdate) bool { return u.Table >= firstTable }

// spoils reports whether a route of Weft's was deleted, or another program added one. What Weft adds is no news.
func spoils(u netlink.RouteUpdate) bool {
	return (u.Type == unix.RTM_DELROUTE) == (u.Protocol == protocol)
}

// subscribeOthers subscribes to the kernel's messages of which netlink has no parser: rules, and settings of forwarding.
func subscribeOthers(ctx context.Context) (<-chan syscall.NetlinkMessage, error) {
	s, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE, unix.RTNLGRP_IPV4_NETCONF,
		unix.RTNLGRP_IPV6_NETCONF)
	if err != nil {
		return nil, err
	}
	messages := make(chan syscall.NetlinkMessage, 64)
	stop := context.AfterFunc(ctx, s.Close)
	go func() {
		defer close(messages)
		for {
			received, _, err := s.Receive()
			if err != nil {
				if stop() {
					s.Close()
				}
				return
			}
			for _, m := range received {
				messages <- m
			}
		}
	}()
	return messages, nil
}

// losesRule reports whether a rule with Weft's priority was deleted.
func losesRule(m syscall.NetlinkMessage) bool {
	attrs, err := nl.ParseRouteAttr(m.Data[min(len(m.Data), unix.SizeofRtMsg):])
	return err == nil && m.Header.Type == unix.RTM_DELRULE && slices.ContainsFunc(attrs, func(a syscall.NetlinkRouteAttr) bool {
		return a.Attr.Type == unix.FRA_PRIORITY && len(a.Value) >= 4 && binary.NativeEndian.Uint32(a.Value) == sourcePriority
	})
}

// Attributes of a message about settings (linux/netconf.h), and the index that means all links.
const (
	netconfIndex      = 1
	netconfForwarding = 2
	netconfProxies    = 5
	netconfAll        = -1
	netconfHeader     = 4
)

// stops reports whether a setting that Weft needs was switched off: forwarding on all links, or proxied neighbours on a watched one.
func (w watchedLinks) stops(m syscall.NetlinkMessage) bool {
	if m.Header.Type != unix.RTM_NEWNETCONF {
		return false
	}
	attrs, err := nl.ParseRouteAttrAsMap(m.Data[min(len(m.Data), netconfHeader):])
	if err != nil {
		return false
	}
	value := func(kind uint16) int32 {
		if v := attrs[kind].Value; len(v) >= 4 {
			return int32(binary.NativeEndian.Uint32(v))
		}
		return netconfAll
	}
	index := value(netconfIndex)
	return index == netconfAll && value(netconfForwarding) == 0 || index > 0 && value(netconfProxies) == 0 && w.has(int(index))
}

// isLinkLocal reports whether an address is in fe80::/10, from which each link of a pod gets an address.
func isLinkLocal(address net.IPNet) bool {
	return address.IP.To4() == nil && address.IP.IsLinkLocalUnicast()
}

// watchedLinks maps the watched links to their indexes, because updates of addresses and routes have only an index.
type watchedLinks struct {
	uplinks func() []string
	indexes map[string]int // by name; 0 while the link does not exist
}

// updateLink records a link's current index and reports whether the link is watched.
func (w watchedLinks) updateLink(a *netlink.LinkAttrs) bool {
	w.resolve()
	if _, ok := w.indexes[a.Name]; ok {
		w.indexes[a.Name] = a.Index
		return true
	}
	for name, index := range w.indexes { // it was renamed
		if index == a.Index {
			w.indexes[name] = 0
			return true
		}
	}
	return false
}

// has reports whether a watched link has the index.
func (w watchedLinks) has(index int) bool {
	w.resolve()
	for _, watched := range w.indexes {
		if watched == index {
			return true
		}
	}
	return false
}

// resolve adds new uplinks and finds the missing indexes.
func (w watchedLinks) resolve() {
	for _, name := range w.uplinks() {
		if _, ok := w.indexes[name]; !ok {
			w.indexes[name] = 0
		}
	}
	for name, index := range w.indexes {
		if index == 0 {
			w.indexes[name] = indexOf(name)
		}
	}
}

// indexOf returns the index of a link, or 0 if there is no such link.
func indexOf(linkName string) int {
	link, err := netlink.LinkByName(linkName)
	if err != nil {
		return 0
	}
	return link.Attrs().Index
}

// drain receives until the channel is closed, because the subscription's goroutine can end only after its last send.
func drain[T any](news <-chan T) {
	go func() {
		for range news { // the updates no longer matter
		}
	}()
}
