// Package openflow gives a bridge its flows, by difference, through go-openvswitch, which runs ovs-ofctl.
//
//	[]desired.Flow ──text──▶ cookie ─┐
//	                                 ├─difference─▶ one bundle (all or nothing)
//	dump-flows of our cookies ───────┘
//
// A flow's cookie is made of its text: what the bridge prints of a flow is not what was written, and differs by version, so that texts
// could not be compared. Flows with other cookies are somebody else's.
package openflow

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"net"
	"path/filepath"
	"sync"

	"github.com/digitalocean/go-openvswitch/ovs"
	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/pkg/agent/desired"
)

const (
	// ours are the upper 16 bits of our cookies.
	ours     uint64 = 0x57ef << 48
	oursMask uint64 = 0xffff << 48
	whole    uint64 = 1<<64 - 1
	// timeout bounds a run of ovs-ofctl, in seconds.
	timeout = 10
)

// ErrAbsent says that ovs-vswitchd does not keep the bridge: it does not run, or has not made it yet.
var ErrAbsent = errors.New("ovs-vswitchd does not offer the bridge's OpenFlow socket")

// Bridge is one whose flows are kept.
type Bridge struct {
	socket string
	client *ovs.Client

	mu sync.Mutex
	// shown is how the bridge printed each of our flows after it was written, by cookie: a difference is somebody's change.
	shown map[uint64]string
}

// New returns the bridge with that name of the ovs-vswitchd with that run directory.
func New(runDir, name string) *Bridge {
	return &Bridge{socket: filepath.Join(runDir, name+".mgmt"), client: ovs.New(ovs.Timeout(timeout)), shown: map[uint64]string{}}
}

// Apply gives the bridge exactly these flows of ours, and reports whether anything was written. Two of them must not match the same.
func (b *Bridge) Apply(flows []desired.Flow) (changed bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.check(); err != nil {
		return false, err
	}
	have, err := b.dump()
	if err != nil {
		return false, err
	}
	missing, extra := b.difference(flows, have)
	if len(missing) == 0 && len(extra) == 0 {
		b.shown = have
		return false, nil
	}
	if err := b.client.OpenFlow.AddFlowBundle(b.target(), bundle(missing, extra)); err != nil {
		return false, fmt.Errorf("write flows: %w", err)
	}
	b.shown, err = b.dump()
	return true, err
}

// check finds out whether somebody listens at the socket, which a switch that was killed leaves behind.
func (b *Bridge) check() error {
	conn, err := net.Dial("unix", b.socket)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("%s: %w", b.socket, ErrAbsent)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", b.socket, err)
	}
	return conn.Close()
}

// target is the switch as ovs-ofctl takes it.
func (b *Bridge) target() string { return "unix:" + b.socket }

// dump returns our flows as the bridge prints them, by cookie.
func (b *Bridge) dump() (map[uint64]string, error) {
	found, err := b.client.OpenFlow.DumpFlowsWithFlowArgs(b.target(), &ovs.MatchFlow{Cookie: ours, CookieMask: oursMask, Table: ovs.AnyTable})
	if err != nil {
		return nil, fmt.Errorf("list flows: %w", err)
	}
	flows := make(map[uint64]string, len(found))
	for _, f := range found {
		text, err := f.MarshalText()
		if err != nil {
			return nil, fmt.Errorf("list flows: %w", err)
		}
		flows[f.Cookie] += string(text) + "\n" // of two with one cookie one is somebody's copy
	}
	return flows, nil
}

// difference returns what to add and the cookies of what to delete first.
func (b *Bridge) difference(flows []desired.Flow, have map[uint64]string) (missing []*ovs.Flow, extra []uint64) {
	wanted := make(map[uint64]bool, len(flows))
	for _, f := range flows {
		flow := render(f)
		wanted[flow.Cookie] = true
		was, known := b.shown[flow.Cookie]
		is, there := have[flow.Cookie]
		if there && known && was != is {
			extra = append(extra, flow.Cookie)
		}
		if !there || known && was != is {
			missing = append(missing, flow)
		}
	}
	for cookie := range have {
		if !wanted[cookie] {
			extra = append(extra, cookie)
		}
	}
	return missing, extra
}

func bundle(missing []*ovs.Flow, extra []uint64) func(*ovs.FlowTransaction) error {
	return func(tx *ovs.FlowTransaction) error {
		for _, cookie := range extra {
			tx.Delete(&ovs.MatchFlow{Cookie: cookie, CookieMask: whole, Table: ovs.AnyTable})
		}
		tx.Add(missing...)
		return tx.Commit()
	}
}

// text is a match or actions as desired wrote them.
type text string

func (t text) MarshalText() ([]byte, error) { return []byte(t), nil }
func (t text) GoString() string             { return fmt.Sprintf("%q", string(t)) }

func render(f desired.Flow) *ovs.Flow {
	flow := &ovs.Flow{Table: f.Table, Priority: f.Priority, Cookie: cookieOf(f), Actions: []ovs.Action{text(f.Actions)}}
	if f.Match != "" {
		flow.Matches = []ovs.Match{text(f.Match)}
	}
	return flow
}

// cookieOf makes a cookie of a flow: 48 bits of its text's hash, of which 10,000 flows have two alike once in five million times.
func cookieOf(f desired.Flow) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %d %s %s", f.Table, f.Priority, f.Match, f.Actions)
	return ours | h.Sum64()&^oursMask
}
