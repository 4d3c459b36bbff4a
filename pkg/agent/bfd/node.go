package bfd

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"

	"github.com/go-logr/logr"
)

// Peer is the other side of a session.
type Peer struct {
	// Address is the router's address, and Source the node's. Without Source the kernel chooses by the route.
	Address, Source netip.Addr
	// MultiHop means that other routers may be between node and router.
	MultiHop bool
}

func (p Peer) key() key { return key{p.Address, p.MultiHop} }

func (p Peer) kind() kind { return kind{p.Address.Is4(), p.MultiHop} }

// key identifies a session on the node.
type key struct {
	router   netip.Addr
	multiHop bool
}

// Node keeps the sessions of a node, and the sockets that receive their packets. Create it with New.
type Node struct {
	log logr.Logger

	// mu guards listeners, and is held by who changes sessions. lookup guards sessions. A listener takes lookup alone, so that
	// it can be closed under mu.
	mu        sync.Mutex
	listeners map[kind]*listener
	lookup    sync.RWMutex
	sessions  map[key]*Session
}

// New returns a Node without sessions. It has neither sockets nor goroutines.
func New(log logr.Logger) *Node {
	return &Node{log: log, sessions: map[key]*Session{}, listeners: map[kind]*listener{}}
}

// ErrSecond means that a node has a session with the router already.
var ErrSecond = errors.New("BFD runs with this router already")

// Start starts a session. changed is called from the session's goroutine when the status changes; it must not call the
// Session. An error means that another program has the port, or that the node has a session with the router already.
func (n *Node) Start(p Peer, s Settings, changed func(Status)) (*Session, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.sessions[p.key()] != nil {
		return nil, ErrSecond
	}
	if n.listeners[p.kind()] == nil {
		l, err := listen(p.kind(), n.deliver)
		if err != nil {
			return nil, fmt.Errorf("cannot receive BFD: %w", err)
		}
		n.listeners[p.kind()] = l
	}
	started := newSession(p, s, n.discriminator(), changed, n.log.WithValues("router", p.Address))
	started.ended = func() { n.remove(p) }
	n.lookup.Lock()
	n.sessions[p.key()] = started
	n.lookup.Unlock()
	go started.run()
	return started, nil
}

// discriminator returns a number that no session has. The caller holds the lock.
func (n *Node) discriminator() uint32 {
	for {
		chosen, taken := rand.Uint32(), false
		for _, s := range n.sessions {
			taken = taken || s.discriminator == chosen
		}
		if chosen != 0 && !taken {
			return chosen
		}
	}
}

// remove forgets a session that has ended, and closes the listener that no other session needs.
func (n *Node) remove(p Peer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lookup.Lock()
	delete(n.sessions, p.key())
	n.lookup.Unlock()
	for k := range n.sessions {
		if (Peer{Address: k.router, MultiHop: k.multiHop}).kind() == p.kind() {
			return
		}
	}
	n.listeners[p.kind()].close()
	delete(n.listeners, p.kind())
}

// deliver gives a datagram to its session. Packets of other senders are dropped, and so are packets from a link that a router
// has forwarded (RFC 5881 §5).
func (n *Node) deliver(k kind, from netip.Addr, ttl int, datagram []byte) {
	if !k.multiHop && ttl != ownTTL {
		return
	}
	n.lookup.RLock()
	s := n.sessions[key{from, k.multiHop}]
	n.lookup.RUnlock()
	if s == nil {
		return
	}
	p, err := Parse(datagram)
	if err != nil {
		n.log.V(1).Info("dropped a BFD packet", "router", from, "reason", err.Error())
		return
	}
	if p.Yours != 0 && p.Yours != s.discriminator {
		return // of an earlier session
	}
	select {
	case s.packets <- p:
	default: // the session is behind, and a later packet says the same
	}
}
