// Package openflow writes a bridge's flows through go-openvswitch, which runs ovs-ofctl. It writes only the difference.
//
//	[]desired.Flow ──text──▶ cookie ─┐
//	                                 ├─difference─▶ one bundle (all or nothing)
//	dump-flows of our cookies ───────┘
//
// A flow's cookie is a hash of its text. Texts cannot be compared, because the bridge prints a flow differently from how
// it was written, and differently in each version. Flows with other cookies are foreign and left alone.
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
	// ours is the value of the upper 16 bits of our cookies.
	ours     uint64 = 0x57ef << 48
	oursMask uint64 = 0xffff << 48
	whole    uint64 = 1<<64 - 1
	// timeout limits a run of ovs-ofctl, in seconds.
	timeout = 10
)

// ErrAbsent means that ovs-vswitchd does not run or has not created the bridge yet.
var ErrAbsent = errors.New("ovs-vswitchd does not offer the bridge's OpenFlow socket")

// Bridge keeps the flows of one bridge.
type Bridge struct {
	socket string
	client *ovs.Client

	mu sync.Mutex
	// shown is the text that the bridge printed for each of our flows after the last write, by cookie. A different text
	// means that someone changed the flow.
	shown map[uint64]string
	// applied are the cookies of the last Apply; nil: there was none. writes counts the writes.
	applied map[uint64]bool
	writes  int
	monitor net.Conn // of Follow; nil: the bridge is not followed
}

// New returns a Bridge for the named bridge of the ovs-vswitchd whose run directory is runDir.
func New(runDir, name string) *Bridge {
	return &Bridge{socket: filepath.Join(runDir, name+".mgmt"), client: ovs.New(ovs.Timeout(timeout)), shown: map[uint64]string{}}
}

// Apply replaces Weft's flows of the bridge with these, and reports whether it wrote anything. No two of them may have
// the same table, match and priority.
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
	wanted, missing, extra := b.difference(flows, have)
	if len(missing) == 0 && len(extra) == 0 {
		b.shown, b.applied = have, wanted
		return false, nil
	}
	if err := b.client.OpenFlow.AddFlowBundle(b.target(), bundle(missing, extra)); err != nil {
		return false, fmt.Errorf("write flows: %w", err)
	}
	b.applied, b.writes = wanted, b.writes+1
	b.shown, err = b.dump()
	return true, err
}

// Answers reports whether the ovs-vswitchd whose run directory is runDir has made a bridge and its ports.
func Answers(runDir, bridge string) bool { return New(runDir, bridge).check() == nil }

// check returns ErrAbsent if no process listens at the socket, because a killed switch leaves the socket file behind.
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

// target returns the switch in the form that ovs-ofctl accepts.
func (b *Bridge) target() string { return "unix:" + b.socket }

// dump returns our flows by cookie, as the bridge prints them.
func (b *Bridge) dump() (map[uint64]string, error) {
	match := &ovs.MatchFlow{Cookie: ours, CookieMask: oursMask, Table: ovs.AnyTable}
	found, err := b.client.OpenFlow.DumpFlowsWithFlowArgs(b.target(), match)
	if err != nil {
		return nil, fmt.Errorf("list flows: %w", err)
	}
	flows := make(map[uint64]string, len(found))
	for _, f := range found {
		text, err := f.MarshalText()
		if err != nil {
			return nil, fmt.Errorf("list flows: %w", err)
		}
		flows[f.Cookie] += string(text) + "\n" // if two flows have one cookie, someone copied ours
	}
	return flows, nil
}

// difference returns the wanted cookies, the flows to add, and the cookies of the flows to delete before that.
func (b *Bridge) difference(flows []desired.Flow, have map[uint64]string) (
	wanted map[uint64]bool, missing []*ovs.Flow, extra []uint64) {
	wanted = make(map[uint64]bool, len(flows))
	for _, f := range flows {
		flow := render(f)
		wanted[flow.Cookie] = true
		was, written := b.shown[flow.Cookie]
		is, there := have[flow.Cookie]
		if there && written && was != is {
			extra = append(extra, flow.Cookie)
		}
		if !there || written && was != is {
			missing = append(missing, flow)
		}
	}
	for cookie := range have {
		if !wanted[cookie] {
			extra = append(extra, cookie)
		}
	}
	return wanted, missing, extra
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

// text is a match or an action list in the form in which package desired writes it.
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

// cookieOf returns the cookie of a flow: 48 bits are a hash of its text. The probability that two of 10,000 flows have
// the same cookie is one in five million.
func cookieOf(f desired.Flow) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %d %s %s", f.Table, f.Priority, f.Match, f.Actions)
	return ours | h.Sum64()&^oursMask
}
