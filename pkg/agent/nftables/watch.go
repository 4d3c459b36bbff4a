package nftables

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	gnftables "github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const (
	// watchBuffer is the size in bytes of the notifications that may wait. A transaction of kube-proxy with some 10,000
	// elements fits in.
	watchBuffer = 4 << 20
	// watchRetry is the time until the next attempt to subscribe.
	watchRetry = 10 * time.Second
)

// watchState says whether an object may have changed. The object's lock protects it, and is held during own transactions.
type watchState struct {
	// watched reports whether Watch is subscribed to notifications. suspect reports whether another program may have changed
	// the object.
	watched, suspect bool
	own              map[uint32]bool // generations of own transactions that Watch has not read yet
	// process, if set, is the name of processes whose transactions are own ones.
	process string
}

// wrote records an own transaction.
func (w *watchState) wrote(generation uint32) {
	if w.watched {
		w.own[generation] = true
	}
}

// isForeign reports whether a transaction that concerns the object is another program's, and if so, makes the object suspect.
func (w *watchState) isForeign(generation uint32, process string) bool {
	foreign := !w.own[generation] && (w.process == "" || w.process != process)
	delete(w.own, generation)
	w.suspect = w.suspect || foreign
	return foreign
}

// doubt makes the object suspect. watched reports whether Watch is subscribed from now on.
func (w *watchState) doubt(watched bool) {
	w.watched, w.suspect, w.own = watched, true, map[uint32]bool{}
}

// observer is an object that Watch watches: a Table, a Firewall or Guards.
type observer interface {
	// concerns reports whether a notification may be about the object.
	concerns(family gnftables.TableFamily, m netlink.Message) bool
	// state calls f with the state, under the object's lock.
	state(f func(*watchState))
}

// Watched is an object to watch. Watch calls Changed for each transaction of another program that may have changed the
// object, with the name of the program's process. The name is empty if it is unknown, as at the start and after lost
// notifications.
type Watched struct {
	Object  observer
	Changed func(process string)
}

// Watch reads the kernel's notifications until ctx ends.
func Watch(ctx context.Context, log logr.Logger, objects ...Watched) error {
	for {
		err := watch(ctx, objects)
		for _, o := range objects {
			o.Object.state(func(s *watchState) { s.doubt(false) })
		}
		if ctx.Err() != nil {
			return nil
		}
		log.Error(err, "cannot watch nftables; retrying", "after", watchRetry.String())
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchRetry):
		}
	}
}

func watch(ctx context.Context, objects []Watched) error {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := errors.Join(conn.SetReadBuffer(watchBuffer), conn.JoinGroup(unix.NFNLGRP_NFTABLES)); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) }) // ends Receive
	defer stop()
	doubt := func() { // there was no notification of earlier changes
		for _, o := range objects {
			o.Object.state(func(s *watchState) { s.doubt(true) })
			o.Changed("")
		}
	}
	doubt()
	concerned := make([]bool, len(objects)) // by the transaction that is being read
	for {
		messages, err := conn.Receive()
		if errors.Is(err, unix.ENOBUFS) { // notifications were lost
			doubt()
			continue
		}
		if err != nil {
			return err
		}
		for _, m := range messages {
			if len(m.Data) < headerSize {
				continue
			}
			if kindOfMessage(m) == unix.NFT_MSG_NEWGEN {
				committed(m, objects, concerned)
				clear(concerned)
				continue
			}
			for i, o := range objects {
				concerned[i] = concerned[i] || o.Object.concerns(gnftables.TableFamily(m.Data[0]), m)
			}
		}
	}
}

// committed judges a transaction, which the notification m ends.
func committed(m netlink.Message, objects []Watched, concerned []bool) {
	_, generation, _ := body(m)
	number, process := generation.number(unix.NFTA_GEN_ID), generation.text(unix.NFTA_GEN_PROC_NAME)
	for i, o := range objects {
		foreign := false
		if concerned[i] {
			o.Object.state(func(s *watchState) { foreign = s.isForeign(number, process) })
		}
		if foreign {
			o.Changed(process)
		}
	}
}

// kindOfMessage returns NFT_MSG_*. The socket has no messages of other subsystems.
func kindOfMessage(m netlink.Message) uint8 { return uint8(m.Header.Type) }

// concerns reports whether a notification is about the table.
func (t *Table) concerns(family gnftables.TableFamily, m netlink.Message) bool {
	return family == gnftables.TableFamilyINet && tableOf(m) == t.name()
}

func (t *Table) state(f func(*watchState)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(&t.watchState)
}

// tableOf returns the name of a notification's table. It is the first attribute of tables, chains, rules, sets, elements and
// objects. tableOf reads nothing else, because other programs' transactions may be large.
func tableOf(m netlink.Message) string {
	decoder, err := netlink.NewAttributeDecoder(m.Data[headerSize:])
	if err != nil || !decoder.Next() || decoder.Type() != 1 {
		return ""
	}
	return decoder.String()
}
