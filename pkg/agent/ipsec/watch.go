package ipsec

import (
	"context"
	"errors"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

const (
	// watchRetry is the time until the next attempt to subscribe.
	watchRetry = 10 * time.Second
	// settle is how long the kernel must lack something before it is repaired: while charon renews keys or replaces a connection, the
	// kernel differs from its answer for a moment.
	settle = 100 * time.Millisecond
	// pause is the time between two repairs of one connection.
	pause = 5 * time.Second
	// calm is the least time until a comparison after changes that charon makes, too, and calmOfPeer is the time for each peer. A policy's
	// deletion is compared at once.
	calm       = time.Second
	calmOfPeer = 10 * time.Millisecond
)

// watchKernel calls Deleted when a policy of the kernel was deleted, and After when policies or states changed otherwise, until ctx ends.
func (t *Tunnels) watchKernel(ctx context.Context) {
	socket, err := subscribe()
	go func() {
		for {
			if err == nil {
				err = t.receive(ctx, socket)
			}
			if ctx.Err() != nil {
				return
			}
			t.o.Log.Error(err, "cannot watch the kernel's IPsec policies; retrying", "after", watchRetry.String())
			select {
			case <-ctx.Done():
				return
			case <-time.After(watchRetry):
			}
			if socket, err = subscribe(); err == nil {
				t.o.Changed() // there was no notification of earlier changes
			}
		}
	}()
}

func subscribe() (*nl.NetlinkSocket, error) {
	return nl.Subscribe(unix.NETLINK_XFRM, nl.XFRMNLGRP_POLICY, nl.XFRMNLGRP_SA)
}

// receive reads notifications until ctx ends or the socket fails, and closes the socket.
func (t *Tunnels) receive(ctx context.Context, socket *nl.NetlinkSocket) error {
	stop := context.AfterFunc(ctx, socket.Close)
	for {
		messages, _, err := socket.Receive()
		if errors.Is(err, unix.ENOBUFS) { // notifications were lost
			t.notify(nl.XFRM_MSG_FLUSHPOLICY)
			continue
		}
		if err != nil {
			if stop() {
				socket.Close()
			}
			return err
		}
		for _, m := range messages {
			t.notify(m.Header.Type)
		}
	}
}

// notify has the kernel compared after a notification. Without encryption, there is nothing to compare.
func (t *Tunnels) notify(kind uint16) {
	switch {
	case t.cleared.Load():
	case kind == nl.XFRM_MSG_DELPOLICY || kind == nl.XFRM_MSG_FLUSHPOLICY:
		t.o.Deleted()
	default:
		t.o.After(max(calm, time.Duration(t.peers.Load())*calmOfPeer))
	}
}
