package uplink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

const (
	// lockTimeout bounds how long another process' move or undoing is waited for.
	lockTimeout = 5 * time.Second
	// lockInterval is how often the lock is tried.
	lockInterval = 50 * time.Millisecond
	// lockName is the lock's file, beside the ledgers.
	lockName = "uplink.lock"
	// switchTimeout bounds how long Open vSwitch is waited for.
	switchTimeout = 5 * time.Second
	// undoTimeout bounds one undoing.
	undoTimeout = 30 * time.Second
	// maxInterrupted is how many moves in a row may end with their process before none is tried again.
	maxInterrupted = 3
)

// ErrRolledBack says that a move was undone, and why; it is not tried again until something else is asked for.
var ErrRolledBack = errors.New("the move was rolled back")

// Config says how links are moved.
type Config struct {
	// Dir is where ledgers are: a directory of the host's disk that survives the agent and a reboot.
	Dir string
	// OpenVSwitch is the OVSDB remote of the local database.
	OpenVSwitch string
	Datapath    networkv1alpha1.DatapathType
	// HostRun is where the host's /run is seen, to find who manages links; empty: nobody is looked for.
	HostRun string
	// MoveTimeout bounds steps and probe; 0 is 45 s. ProbeTimeout bounds the probe alone; 0 is 15 s. GuardGrace is how long after its time a
	// move may undo itself before the guard does; 0 is 15 s.
	MoveTimeout, ProbeTimeout, GuardGrace time.Duration
	// GuardCommand starts the guard; it gets --link, --attempt and --timeout besides, and calls Mover.Guard.
	GuardCommand []string
	// BootID tells one boot from another; nil: the kernel's.
	BootID func() (string, error)
	// Tell is told what became of a link: it was moved (nil), or why it was rolled back; nil: nobody is.
	Tell func(link, bridge string, err error)
	// Passed is told at once of each change of the host; tests end the process there. nil: nobody is.
	Passed func(point string)
	Log    logr.Logger
}

// Request is what a link is wanted for.
type Request struct {
	// Interface is the link or the bridge; empty: the one with the default route.
	Interface string
	Uplink    networkv1alpha1.UplinkType
	// NodeAddresses are the Node's InternalIPs.
	NodeAddresses []netip.Addr
	// NextHops are asked by ARP and ND; nil: those of the link's default routes.
	NextHops []netip.Addr
	// APIServer has to answer, and one of Peers, by a TCP connection or its refusal.
	APIServer netip.AddrPort
	Peers     []netip.AddrPort
}

// String tells requests apart that name their link. Who is asked does not change what is wanted.
func (r Request) String() string {
	return fmt.Sprintf("%s %s %v", cmp.Or(r.Interface, "default"), cmp.Or(r.Uplink, networkv1alpha1.UplinkBridge), r.NextHops)
}

// Bridge is a link's bridge as it is.
type Bridge struct {
	Name string
	// Interface is the port that leads outside; empty: somebody else made the bridge.
	Interface string
	// Alone says that the link was moved for uplink Interface; Addresses and NextHops are what it had then, and the host has not.
	Alone     bool
	Addresses []netip.Prefix
	NextHops  []netip.Addr
}

// Mover moves links. One process may have several.
type Mover struct {
	cfg Config
	mu  sync.Mutex
}

// New returns a mover.
func New(cfg Config) *Mover {
	cfg.MoveTimeout = cmp.Or(cfg.MoveTimeout, 45*time.Second)
	cfg.ProbeTimeout = cmp.Or(cfg.ProbeTimeout, 15*time.Second)
	cfg.GuardGrace = cmp.Or(cfg.GuardGrace, 15*time.Second)
	if cfg.BootID == nil {
		cfg.BootID = kernelBootID
	}
	if cfg.Tell == nil {
		cfg.Tell = func(string, string, error) {}
	}
	if cfg.Passed == nil {
		cfg.Passed = func(string) {}
	}
	return &Mover{cfg: cfg}
}

func kernelBootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text)), err
}

func (m *Mover) dir() folder { return folder(m.cfg.Dir) }

// lock keeps other processes away; the kernel lets go of it when this one dies.
func (m *Mover) lock(ctx context.Context, timeout time.Duration) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ticker := time.NewTicker(lockInterval)
	defer ticker.Stop()
	m.mu.Lock()
	for {
		file, err := m.tryLock()
		if file != nil {
			return func() { file.Close(); m.mu.Unlock() }, nil
		}
		if err == nil {
			select {
			case <-ticker.C:
				continue
			case <-ctx.Done():
				err = fmt.Errorf("another process moves a link: %w", ctx.Err())
			}
		}
		m.mu.Unlock()
		return nil, fmt.Errorf("lock: %w", err)
	}
}

// tryLock returns nil while another process has the lock. One that has just let go of it may have removed the file: who locked that one
// keeps nobody away.
func (m *Mover) tryLock() (*os.File, error) {
	path := filepath.Join(m.cfg.Dir, lockName)
	if err := os.MkdirAll(m.cfg.Dir, 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		locked, lockedErr := file.Stat()
		present, presentErr := os.Stat(path)
		if lockedErr == nil && presentErr == nil && os.SameFile(locked, present) {
			return file, nil
		}
	} else if errors.Is(err, unix.EWOULDBLOCK) {
		err = nil
	}
	return nil, errors.Join(err, file.Close())
}

// withSwitch calls do with a connection to Open vSwitch, or with nil when there is none.
func (m *Mover) withSwitch(ctx context.Context, do func(*rows) error) error {
	sw, err := connect(ctx, m.cfg.OpenVSwitch, switchTimeout, m.cfg.Log)
	if err != nil {
		m.cfg.Log.Info("Open vSwitch is out of reach", "reason", err.Error())
	}
	defer sw.close()
	return do(sw)
}

func (m *Mover) host(sw *rows) *host { return &host{rows: sw, passed: m.cfg.Passed} }

// Recover is the first act of an agent, before it asks anybody anything: what a death left half done is undone, and so is what a former
// boot had. It moves nothing: that is Ensure's.
func (m *Mover) Recover(ctx context.Context) error {
	unlock, err := m.lock(ctx, lockTimeout)
	if err != nil {
		return err
	}
	defer unlock()
	ledgers, err := m.dir().all()
	if len(ledgers) == 0 {
		return err
	}
	return errors.Join(err, m.withSwitch(ctx, func(sw *rows) error { return m.settleAll(ctx, sw, ledgers) }))
}

func (m *Mover) settleAll(ctx context.Context, sw *rows, ledgers []*Ledger) error {
	boot, err := m.cfg.BootID()
	if err != nil {
		return err
	}
	var failed error
	for _, l := range ledgers {
		if err := m.settle(ctx, sw, l, boot); err != nil {
			failed = errors.Join(failed, fmt.Errorf("link %s: %w", l.Snapshot.Link, err))
		}
	}
	return failed
}

// settle brings a link to rest: on its bridge, or as it was.
func (m *Mover) settle(ctx context.Context, sw *rows, l *Ledger, boot string) error {
	switch l.Phase {
	case Moving:
		l.Interrupted++
		return m.undo(ctx, sw, l, boot, "the agent ended during the move")
	case Undoing:
		return m.undo(ctx, sw, l, boot, l.Reason)
	case Confirmed:
		return m.keep(ctx, sw, l, boot)
	}
	return nil
}

// keep looks after a link that was moved. Open vSwitch may have lost the bridge, or have made its link anew.
func (m *Mover) keep(ctx context.Context, sw *rows, l *Ledger, boot string) error {
	switch {
	case l.BootID != boot:
		l.Forget = true
		return m.undo(ctx, sw, l, boot, "the host was booted again")
	case sw == nil:
		return errNoSwitch
	case !sw.isOurs(l.Target.Bridge, l.Snapshot.Link):
		l.Forget = true
		return m.undo(ctx, sw, l, boot, "Open vSwitch has lost the bridge")
	case l.Target.Uplink == networkv1alpha1.UplinkInterface:
		return nil
	}
	found, err := netlink.LinkByName(l.Target.Bridge)
	if err != nil {
		return fmt.Errorf("bridge %s: %w", l.Target.Bridge, err)
	}
	have, err := readLayer3(link{found.Attrs().Index, l.Target.Bridge})
	if err != nil || len(prefixes(have)) > 0 || len(prefixes(l.Snapshot.Layer3)) == 0 {
		return err
	}
	return m.host(sw).do(ctx, refill(l.Snapshot, l.Target))
}

// undo brings the link back as the ledger has it. Where Open vSwitch is out of reach, the host's side is brought back and the ledger stays
// as it is: the rest is done when the next one looks.
func (m *Mover) undo(ctx context.Context, sw *rows, l *Ledger, boot, reason string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	l.Phase, l.Reason = Undoing, reason
	if err := m.dir().write(l); err != nil {
		m.cfg.Log.Error(err, "the ledger cannot be written; undoing goes on")
	}
	m.cfg.Passed("ledger " + string(Undoing))
	h := m.host(sw)
	err := h.doAll(ctx, Undo(l.Snapshot, l.Target, l.BootID == boot))
	if err = errors.Join(err, h.left); err != nil {
		return fmt.Errorf("undo the move (%s): %w", reason, err)
	}
	if l.Forget {
		return m.dir().remove(l.Snapshot.Link)
	}
	l.Phase = RolledBack
	if err := m.dir().write(l); err != nil {
		return err
	}
	m.cfg.Passed("ledger " + string(RolledBack))
	m.cfg.Tell(l.Snapshot.Link, l.Target.Bridge, fmt.Errorf("%w: %s", ErrRolledBack, reason))
	return nil
}

// Ensure returns the bridge of a link, and moves the link there if it is on none. It returns an error that is ErrRefused when the link cannot
// be moved and ErrRolledBack when that was tried; the link is as before then. It takes up to a minute.
func (m *Mover) Ensure(ctx context.Context, req Request) (Bridge, error) {
	req.Uplink = cmp.Or(req.Uplink, networkv1alpha1.UplinkBridge)
	unlock, err := m.lock(ctx, lockTimeout)
	if err != nil {
		return Bridge{}, err
	}
	defer unlock()
	var bridge Bridge
	err = m.withSwitch(ctx, func(sw *rows) error {
		if sw == nil {
			return errNoSwitch
		}
		bridge, err = m.ensure(ctx, sw, req)
		return err
	})
	return bridge, err
}

func (m *Mover) ensure(ctx context.Context, sw *rows, req Request) (Bridge, error) {
	ledgers, err := m.dir().all()
	if err == nil {
		err = m.settleAll(ctx, sw, ledgers)
	}
	if err != nil {
		return Bridge{}, err
	}
	name := req.Interface
	if name == "" {
		if name, err = defaultLink(); err != nil {
			return Bridge{}, err
		}
		req.Interface = name // asked for by its name it is no other
	}
	if bridge, ok, err := m.present(sw, name); ok || err != nil {
		return bridge, err
	}
	former, err := m.dir().read(name)
	if err != nil {
		return Bridge{}, err
	}
	boot, err := m.cfg.BootID()
	if err != nil {
		return Bridge{}, err
	}
	if former != nil && !mayRepeat(former, req, boot) {
		return Bridge{}, fmt.Errorf("%w: %s", ErrRolledBack, former.Reason)
	}
	l, err := m.newLedger(ctx, sw, name, req, boot)
	if err != nil {
		return Bridge{}, err
	}
	if former != nil && former.BootID == boot && former.Wanted == l.Wanted {
		l.Interrupted = former.Interrupted
	}
	return m.move(ctx, sw, l, req)
}

// mayRepeat: a move cuts the node off for up to its whole time, so one that failed is not repeated by itself.
func mayRepeat(former *Ledger, req Request, boot string) bool {
	interrupted := former.Interrupted > 0 && former.Interrupted < maxInterrupted
	return former.Phase == RolledBack && (interrupted || former.Wanted != req.String() || former.BootID != boot)
}

// present finds the bridge that the name is, or that it was moved to.
func (m *Mover) present(sw *rows, name string) (Bridge, bool, error) {
	ledgers, err := m.dir().all()
	if err != nil {
		return Bridge{}, false, err
	}
	for _, l := range ledgers {
		if l.Phase == Confirmed && (l.Snapshot.Link == name || l.Target.Bridge == name) {
			return bridgeOf(l), true, nil
		}
	}
	if sw.isBridge(name) {
		return Bridge{Name: name}, true, nil
	}
	if sw.isPort(name) {
		return Bridge{}, false, refuse("%s is a port of an Open vSwitch bridge already: name the bridge in spec.gateway.interface", name)
	}
	return Bridge{}, false, nil
}

func bridgeOf(l *Ledger) Bridge {
	b := Bridge{Name: l.Target.Bridge, Interface: l.Snapshot.Link}
	if l.Target.Uplink != networkv1alpha1.UplinkInterface {
		return b
	}
	b.Alone, b.Addresses = true, prefixes(l.Snapshot.Layer3)
	for _, route := range l.Snapshot.Routes {
		if hop, ok := route.gateway(); ok {
			b.NextHops = append(b.NextHops, hop)
		}
	}
	return b
}

// isFree reports whether a bridge of this name can be made. An ovs-vswitchd that has just started may make the link of a bridge whose rows went
// meanwhile, and then take it away: that is waited for.
func (m *Mover) isFree(ctx context.Context, sw *rows, bridge string) bool {
	if sw.isBridge(bridge) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	return awaitLink(ctx, bridge, false) == nil && !sw.isBridge(bridge)
}

// newLedger takes the snapshot and says whether the link may be moved.
func (m *Mover) newLedger(ctx context.Context, sw *rows, name string, req Request, boot string) (*Ledger, error) {
	target := Target{BridgeName(name), m.cfg.Datapath, req.Uplink}
	if !m.isFree(ctx, sw, target.Bridge) {
		return nil, refuse("there is a bridge or link %s already, and %s is no port of it", target.Bridge, name)
	}
	s, err := take(name, m.cfg.Datapath == networkv1alpha1.DatapathNetdev)
	if err != nil {
		return nil, err
	}
	if err := m.unsuited(s, req); err != nil {
		return nil, err
	}
	now := time.Now()
	return &Ledger{Phase: Moving, Attempt: uuid.NewString(), BootID: boot, Started: now, Deadline: now.Add(m.cfg.MoveTimeout + m.cfg.GuardGrace),
		Wanted: req.String(), Target: target, Snapshot: s}, nil
}

// move is the commit-confirm.
func (m *Mover) move(ctx context.Context, sw *rows, l *Ledger, req Request) (Bridge, error) {
	s := l.Snapshot
	asked := answering(ctx, s.Link, targets(s, req))
	if len(asked) == 0 && req.Uplink != networkv1alpha1.UplinkInterface {
		return Bridge{}, refuse("neither gateway nor API server nor another node answers over %s: nothing could tell whether the move is good", s.Link)
	}
	if req.Uplink == networkv1alpha1.UplinkInterface {
		asked = withoutNeighbors(asked) // they are OVN's from now on
	}
	if err := m.dir().write(l); err != nil {
		return Bridge{}, err
	}
	m.cfg.Passed("ledger " + string(Moving))
	guard, err := startGuard(m.cfg.GuardCommand, l)
	if err != nil {
		return Bridge{}, errors.Join(err, m.dir().remove(s.Link))
	}
	defer func() {
		if err := guard.end(); err != nil {
			m.cfg.Log.Error(err, "the guard's end")
		}
	}()
	m.cfg.Log.Info("moving a link onto its bridge", "link", s.Link, "bridge", l.Target.Bridge, "deadline", l.Deadline)
	if err := m.try(ctx, sw, l, asked); err != nil {
		m.cfg.Log.Info("rolling back", "link", s.Link, "reason", err.Error())
		if undoErr := m.undo(ctx, sw, l, l.BootID, err.Error()); undoErr != nil {
			return Bridge{}, undoErr
		}
		return Bridge{}, fmt.Errorf("%w: %w", ErrRolledBack, err)
	}
	m.cfg.Tell(s.Link, l.Target.Bridge, nil)
	return bridgeOf(l), nil
}

// try does the steps, probes and confirms, within the move's time.
func (m *Mover) try(ctx context.Context, sw *rows, l *Ledger, asked []target) error {
	ctx, cancel := context.WithDeadlineCause(ctx, l.Deadline.Add(-m.cfg.GuardGrace), errors.New("the move's time is over"))
	defer cancel()
	if err := m.host(sw).do(ctx, Move(l.Snapshot, l.Target)); err != nil {
		return err
	}
	probing, done := context.WithTimeout(ctx, m.cfg.ProbeTimeout)
	defer done()
	if err := probe(probing, l.Target.Bridge, asked); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	l.Phase, l.Interrupted = Confirmed, 0
	if err := m.dir().write(l); err != nil {
		return err
	}
	m.cfg.Passed("ledger " + string(Confirmed))
	return nil
}

func withoutNeighbors(all []target) []target {
	var found []target
	for _, t := range all {
		if !t.neighbor {
			found = append(found, t)
		}
	}
	return found
}

// Tell sets who is told what became of a link.
func (m *Mover) Tell(tell func(link, bridge string, err error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cfg.Tell = tell
}

// Bridges are those that links were moved to.
func (m *Mover) Bridges() ([]Bridge, error) {
	ledgers, err := m.dir().all()
	var found []Bridge
	for _, l := range ledgers {
		if l.Phase == Confirmed {
			found = append(found, bridgeOf(l))
		}
	}
	return found, err
}

// Retry forgets the moves that were rolled back, so that they are tried again.
func (m *Mover) Retry(ctx context.Context) error {
	unlock, err := m.lock(ctx, lockTimeout)
	if err != nil {
		return err
	}
	defer unlock()
	ledgers, err := m.dir().all()
	for _, l := range ledgers {
		if l.Phase == RolledBack {
			err = errors.Join(err, m.dir().remove(l.Snapshot.Link))
		}
	}
	return err
}

// Ledgers tells how far the moves are that this host knows.
func (m *Mover) Ledgers() ([]*Ledger, error) { return m.dir().all() }

// Release brings all links back, with what their bridges carry now, and leaves nothing.
func (m *Mover) Release(ctx context.Context) error {
	unlock, err := m.lock(ctx, lockTimeout)
	if err != nil {
		return err
	}
	defer unlock()
	ledgers, err := m.dir().all()
	if err == nil && len(ledgers) > 0 {
		err = m.releaseAll(ctx, ledgers)
	}
	if err != nil {
		return err
	}
	return os.Remove(filepath.Join(m.cfg.Dir, lockName)) // nobody else is here any more who could want it
}

func (m *Mover) releaseAll(ctx context.Context, ledgers []*Ledger) error {
	boot, err := m.cfg.BootID()
	if err != nil {
		return err
	}
	return m.withSwitch(ctx, func(sw *rows) error {
		var failed error
		for _, l := range ledgers {
			failed = errors.Join(failed, m.release(ctx, sw, l, boot, "Weft is removed"))
		}
		return failed
	})
}

// GiveBack brings one link back, that OVN had alone.
func (m *Mover) GiveBack(ctx context.Context, link string) error {
	unlock, err := m.lock(ctx, lockTimeout)
	if err != nil {
		return err
	}
	defer unlock()
	l, err := m.dir().read(link)
	if l == nil || err != nil {
		return err
	}
	boot, err := m.cfg.BootID()
	if err != nil {
		return err
	}
	return m.withSwitch(ctx, func(sw *rows) error { return m.release(ctx, sw, l, boot, "the gateway does not use it any more") })
}

func (m *Mover) release(ctx context.Context, sw *rows, l *Ledger, boot, reason string) error {
	if l.Phase == RolledBack {
		return m.dir().remove(l.Snapshot.Link)
	}
	if l.Phase == Confirmed && l.BootID == boot && l.Target.Uplink == networkv1alpha1.UplinkBridge {
		if found, err := netlink.LinkByName(l.Target.Bridge); err == nil {
			now, err := readLayer3(link{found.Attrs().Index, l.Target.Bridge})
			if err != nil {
				return err
			}
			if len(prefixes(now)) > 0 {
				l.Snapshot.Layer3 = now
			}
		}
	}
	l.Forget = true
	return m.undo(ctx, sw, l, boot, reason)
}
