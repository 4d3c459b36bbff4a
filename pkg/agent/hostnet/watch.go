package hostnet

import (
	"context"
	"fmt"

	"github.com/vishvananda/netlink"
)

// Watch calls changed at its start and whenever the named link, one of its addresses or one of its routes may have changed, or the link
// that uplink names at that moment, until ctx ends.
func Watch(ctx context.Context, linkName string, uplink func() string, changed func()) error {
	for ctx.Err() == nil {
		if err := watch(ctx, linkName, uplink, changed); err != nil {
			return fmt.Errorf("watch link %s: %w", linkName, err)
		}
	}
	return nil
}

// watch returns nil when ctx ends and when the kernel ended a subscription: it does so when there was more news than the
// socket holds, as when many pods start at once.
func watch(ctx context.Context, linkName string, uplink func() string, changed func()) error {
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

	index := indexOf(linkName)
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
			switch name := u.Link.Attrs().Name; name {
			case linkName:
				index, concerned = u.Link.Attrs().Index, true
			case uplink():
				concerned = true
			}
		case u, open := <-addresses:
			ok, concerned = open, u.LinkIndex == index
		case u, open := <-routes:
			ok, concerned = open, u.LinkIndex == index
		}
		if !ok {
			return nil
		}
		if concerned {
			changed()
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
