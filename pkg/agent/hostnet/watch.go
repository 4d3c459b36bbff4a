package hostnet

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
)

// Uplinks are what Watch watches besides the named link.
type Uplinks struct {
	Links    func() []string       // with their addresses and routes
	Networks func() []netip.Prefix // addresses in them, on any link
}

// Watch calls changed once at the start and whenever the named link, a link of uplinks, an address or route of these
// links, an address in a network of uplinks, or a default route may have changed. It returns when ctx ends, or with an
// error if the kernel refuses a subscription.
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
		case u, open := <-addresses:
			ok, concerned = open, watched.has(u.LinkIndex) || contains(uplinks.Networks(), u.LinkAddress)
		case u, open := <-routes:
			ok, concerned = open, isDefault(u.Dst) || watched.has(u.LinkIndex)
		}
		if !ok {
			return nil
		}
		if concerned {
			changed()
		}
	}
}

func contains(networks []netip.Prefix, address net.IPNet) bool {
	a := prefixOf(&address).Addr()
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(a) })
}

// watchedLinks maps the watched links to their indexes, because updates of addresses and routes have only an index.
type watchedLinks struct {
	uplinks func() []string
	indexes map[string]int // by name; 0 while the link does not exist
}

// updateLink records a link's current index and reports whether the link is watched.
func (w watchedLinks) updateLink(a *netlink.LinkAttrs) bool {
	w.resolve()
	_, ok := w.indexes[a.Name]
	if ok {
		w.indexes[a.Name] = a.Index
	}
	return ok
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
