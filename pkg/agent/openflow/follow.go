package openflow

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
)

// Follow calls changed when Weft's flows of the bridge differ from the last Apply's, and when the connection to ovs-vswitchd
// ends. What Apply itself writes is no difference. Follow returns at once, and does nothing while the bridge is followed already. It ends
// with ctx or Close. failed is called instead of changed if ovs-vswitchd lets nobody follow the bridge.
func (b *Bridge) Follow(ctx context.Context, changed func(), failed func(error)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.monitor != nil {
		return
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", b.socket)
	if err == nil {
		if _, err = conn.Write(append(message(typeHello, nil), monitor(1, watchAll, nil)...)); err != nil {
			conn.Close()
		}
	}
	if err != nil {
		go failed(err)
		return
	}
	b.monitor = conn
	go func() {
		defer context.AfterFunc(ctx, func() { conn.Close() })()
		began, err := b.watch(conn, changed)
		conn.Close()
		b.mu.Lock()
		isClosed := b.monitor != conn
		if !isClosed {
			b.monitor = nil
		}
		b.mu.Unlock()
		switch {
		case isClosed || ctx.Err() != nil:
		case began:
			changed()
		default:
			failed(err)
		}
	}()
}

// Close ends Follow.
func (b *Bridge) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.monitor != nil {
		b.monitor.Close()
		b.monitor = nil
	}
}

// watch compares the flows at each change until the connection ends. began reports that ovs-vswitchd has sent the present flows.
//
// The mirror may be behind an Apply. So ovs-vswitchd answers a barrier before a difference counts: then it has sent all earlier changes.
func (b *Bridge) watch(conn io.ReadWriter, changed func()) (began bool, err error) {
	m := mirror{flows: map[string]mirrored{}, first: map[uint64]uint64{}}
	asks, asked := false, 0 // a barrier is on its way, and the writes when it was sent
	for {
		kind, body, err := receive(conn)
		if err != nil {
			return began, err
		}
		switch kind {
		case typeMultipart + 1:
			if err := eachUpdate(body, m.update); err != nil {
				return began, err
			}
			began = true
			// The flows of one bundle are complete with the last message of a reply.
			if more := binary.BigEndian.Uint16(body[2:])&multipartMore != 0; more || m.paused || asks {
				continue
			}
		case typeBarrier + 1:
			asks = false
		default:
			continue
		}
		differs, writes := b.differs(m)
		switch {
		case !differs:
		case kind == typeBarrier+1 && writes == asked:
			changed()
		default:
			asks, asked = true, writes
			if _, err := conn.Write(message(typeBarrier, nil)); err != nil {
				return began, err
			}
		}
	}
}

// differs compares the mirror with the last Apply, and returns how often Apply has written. It waits for an Apply under way, because
// the mirror may have its flows already.
func (b *Bridge) differs(m mirror) (differs bool, writes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.applied != nil && !m.has(b.applied), b.writes
}

// mirror has Weft's flows of a bridge, as a monitor reports them.
type mirror struct {
	flows map[string]mirrored // by identity
	// first is a hash of what a flow did when its cookie was first seen, by cookie. A cookie is a hash of the flow's text, so another
	// value means that someone changed the flow.
	first  map[uint64]uint64
	paused bool // ovs-vswitchd reports added flows later, because too many messages wait
}

type mirrored struct{ cookie, does uint64 }

func (m *mirror) update(u update) error {
	switch {
	case u.event == updatePaused, u.event == updateResumed:
		m.paused = u.event == updatePaused
	case u.isOfFlow():
		delete(m.flows, u.identity)
		if u.cookie&oursMask != ours || u.event == updateRemoved {
			break
		}
		h := fnv.New64a()
		h.Write(u.fields)
		h.Write(u.instructions)
		m.flows[u.identity] = mirrored{u.cookie, h.Sum64()}
		if _, seen := m.first[u.cookie]; !seen {
			m.first[u.cookie] = h.Sum64()
		}
	case u.event > updateResumed:
		return fmt.Errorf("an update of a flow with event %d: %w", u.event, errors.ErrUnsupported)
	}
	return nil
}

// has reports whether the flows are those with these cookies, unchanged. It forgets what other flows did.
func (m *mirror) has(cookies map[uint64]bool) bool {
	seen := make(map[uint64]bool, len(cookies))
	for _, f := range m.flows {
		if !cookies[f.cookie] || seen[f.cookie] || m.first[f.cookie] != f.does {
			return false
		}
		seen[f.cookie] = true
	}
	for cookie := range m.first {
		if !cookies[cookie] {
			delete(m.first, cookie)
		}
	}
	return len(seen) == len(cookies)
}
