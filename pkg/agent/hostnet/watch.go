package hostnet

import (
	"context"
	"fmt"

	"github.com/vishvananda/netlink"
)

// Watch calls changed at its start and whenever the named link, one of its addresses or one of its routes may have changed, or one of the
// links that uplinks names at that moment, or a default route, until ctx ends.
func Watch(ctx context.Context, linkName string, uplinks func() []string, changed func()) error {
	for ctx.Err() == nil {
		if err := watch(ctx, linkName, uplinks, changed); err != nil {
			return fmt.Errorf("watch link %s: %w", linkName, err)
		}
	}
	return nil
}

// watch returns nil when ctx ends and when the kernel ended a subscription: it does so when there was more news than the
// socket holds, as when many pods start at once.
func watch(ctx context.Context, linkName string, uplinks func() []string, changed func()) error {
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

	watched := watchedLinks{uplinks: uplinks, indexes: map[string]int{linkName: 0}}
	changed() // nobody told of what came before
	for {
		concerned, ok := false, true
		select {
		case <-ctx.Done():
			return nil
		case u, open := <-links:
			if !open {
				return nil
			}
			concerned = watched.link(u.Link.Attrs())
		case u, open := <-addresses:
			ok, concerned = open, watched.has(u.LinkIndex)
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

// watchedLinks knows links by number, which is what news of addresses and routes have.
type watchedLinks struct {
	uplinks func() []string
	indexes map[string]int // name -> number, 0 while it is not known
}

// link takes news of a link and reports whether it is watched.
func (w watchedLinks) link(a *netlink.LinkAttrs) bool {
	w.learn()
	_, ok := w.indexes[a.Name]
	if ok {
		w.indexes[a.Name] = a.Index
	}
	return ok
}

// has reports whether a watched link has the number.
func (w watchedLinks) has(index int) bool {
	w.learn()
	for _, known := range w.indexes {
		if known == index {
			return true
		}
	}
	return false
}

// learn asks for the numbers of links that are new to it.
func (w watchedLinks) learn() {
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

// indexOf is the number of a link; 0, which no link has, if there is none.
func indexOf(linkName string) int {
	link, err := netlink.LinkByName(linkName)
	if err != nil {
		return 0
	}
	return link.Attrs().Index
}

// drain lets the subscription's goroutine end: it may be about to send.
func drain[T any](news <-chan T) {
	go func() {
		for range news { // only its end matters
		}
	}()
}
