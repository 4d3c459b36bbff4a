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
	// lockTimeout limits the wait for another process that moves or restores a link.
	lockTimeout = 5 * time.Second
	// lockInterval is the time between attempts to take the lock.
	lockInterval = 50 * time.Millisecond
	// lockName is the name of the lock's file, in the directory of the ledgers.
	lockName = "uplink.lock"
	// switchTimeout limits the wait for Open vSwitch.
	switchTimeout = 5 * time.Second
	// undoTimeout limits one undoing.
	undoTimeout = 30 * time.Second
	// maxInterrupted is the number of consecutive moves that may end with their process. After that the mover does not
	// retry.
	maxInterrupted = 3
)

// ErrRolledBack means that a move was undone. The error has the reason. The mover does not retry until the request or
// the boot changes.
var ErrRolledBack = errors.New("the move was rolled back")

// Config configures a Mover.
type Config struct {
	// Dir is the directory of the ledgers, on a disk of the host that survives the agent and a reboot.
	Dir string
	// OpenVSwitch is the OVSDB remote of the local database.
	OpenVSwitch string
	Datapath    networkv1alpha1.DatapathType
	// HostRun is the path at which this process sees the host's /run, where it finds the services that manage links. If
	// empty, the mover does not search for such services.
	HostRun string
	// MoveTimeout limits the steps and the probe; the default is 45 s. ProbeTimeout limits the probe alone; the default
	// is 15 s. GuardGrace is how long a move may take to undo itself after MoveTimeout before the guard does it; the
	// default is 15 s.
	MoveTimeout, ProbeTimeout, GuardGrace time.Duration
	// GuardCommand starts the guard. The mover adds --link, --attempt and --timeout. The command must call Mover.Guard.
	GuardCommand []string
	// BootID returns an ID that changes with each boot. Nil means the kernel's boot ID.
	BootID func() (string, error)
	// Tell, if set, receives the outcome of each move: nil for a moved link, or an ErrRolledBack with the reason.
	Tell func(link, bridge string, err error)
	Log  logr.Logger

	passed func(point string) // called after each change to the host; tests end the process there
}

// Request describes the wanted uplink.
type Request struct {
	// Interface is the name of the link or the bridge. Empty means the link with the default route.
	Interface string
	Uplink    networkv1alpha1.UplinkType
	// Physical reports whether the bridge is for a physical network. Such a link may have no addresses, and then needs
	// no answer from other hosts.
	Physical bool
	// NodeAddresses are the Node's InternalIPs.
	NodeAddresses []netip.Addr
	// NextHops are probed by ARP and ND. Nil means the next hops of the link's default routes.
	NextHops []netip.Addr
	// APIServer and at least one of Peers must accept or refuse a TCP connection, if they did so before the move.
	APIServer netip.AddrPort
	Peers     []netip.AddrPort
}

// String identifies the wanted state. It does not include APIServer and Peers, because probing other targets does not
// change what is wanted.
func (r Request) String() string {
	if r.Physical {
		return r.Interface + " physical network"
	}
	return fmt.Sprintf("%s %s %v", cmp.Or(r.Interface, "default"), cmp.Or(r.Uplink, networkv1alpha1.UplinkBridge), r.NextHops)
}

// Bridge describes the bridge of a link.
type Bridge struct {
	Name string
	// Interface is the port that leads outside. It is empty if Weft did not create the bridge.
	Interface string
	// Alone reports whether the link was moved for uplink Interface. The host then no longer has Addresses and NextHops,
	// which the link had before the move.
	Alone bool
	// Physical reports whether the link was moved for a physical network. The host has its addresses on the bridge.
	Physical  bool
	Addresses []netip.Prefix
	NextHops  []netip.Addr
}

// Mover moves links onto bridges and back. A process may have several Movers: a lock file in Dir serializes moves.
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
	if cfg.passed == nil {
		cfg.passed = func(string) {}
	}
	return &Mover{cfg: cfg}
}

func kernelBootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text)), err
}

func (m *Mover) dir() folder { return folder(m.cfg.Dir) }

// lock excludes other goroutines and processes. The kernel releases the lock when this process dies.
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

// tryLock returns nil while another process has the lock. It also returns nil if that process has just removed the file,
// because a lock on a removed file excludes nobody.
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

// withSwitch calls do with a connection to Open vSwitch, or with nil if it cannot connect.
func (m *Mover) withSwitch(ctx context.Context, do func(*rows) error) error {
	sw, err := connect(ctx, m.cfg.OpenVSwitch, switchTimeout, m.cfg.Log)
	if err != nil {
		m.cfg.Log.Info("cannot connect to Open vSwitch", "reason", err.Error())
	}
	defer sw.close()
	return do(sw)
}

func (m *Mover) host(sw *rows) *host { return &host{rows: sw, passed: m.cfg.passed} }

// Recover undoes moves that a death interrupted, and moves of an earlier boot. The agent calls it before it contacts
// anything else. It does not move a link; Ensure does.
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

// settle brings a link into a final state: on its bridge, or restored.
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

// keep checks a moved link. Open vSwitch may have lost the bridge or recreated its link.
func (m *Mover) keep(ctx context.Context, sw *rows, l *Ledger, boot string) error {
	switch {
	case l.BootID != boot:
		l.Forget = true
		return m.undo(ctx, sw, l, boot, "the host was rebooted")
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

// undo restores the link from the ledger. Without a connection to Open vSwitch it restores the host's side only and
// leaves the ledger in phase Undoing, so that the next call of settle does the rest.
func (m *Mover) undo(ctx context.Context, sw *rows, l *Ledger, boot, reason string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	l.Phase, l.Reason = Undoing, reason
	if err := m.dir().write(l); err != nil {
		m.cfg.Log.Error(err, "cannot write the ledger; continuing to undo the move", "link", l.Snapshot.Link)
	}
	m.cfg.passed("ledger " + string(Undoing))
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
	m.cfg.passed("ledger " + string(RolledBack))
	m.cfg.Tell(l.Snapshot.Link, l.Target.Bridge, fmt.Errorf("%w: %s", ErrRolledBack, reason))
	return nil
}

// Ensure returns the bridge of a link, and moves the link onto one first if it has none. The error is ErrRefused if the
// link cannot be moved, and ErrRolledBack if a move failed. The link is then as before. Ensure takes up to a minute.
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
		req.Interface = name // a later request by name is the same request
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

// mayRepeat reports whether a move that was rolled back may be tried again. A failing move can disconnect the node for
// as long as MoveTimeout, so that it is not repeated unless it was interrupted, or the request or the boot has changed.
func mayRepeat(former *Ledger, req Request, boot string) bool {
	interrupted := former.Interrupted > 0 && former.Interrupted < maxInterrupted
	return former.Phase == RolledBack && (interrupted || former.Wanted != req.String() || former.BootID != boot)
}

// present returns the existing bridge with that name, or the bridge that the link with that name was moved to.
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
		return Bridge{}, false, refuse(
			"%s is already a port of an Open vSwitch bridge: name the bridge instead of the link", name)
	}
	return Bridge{}, false, nil
}

func bridgeOf(l *Ledger) Bridge {
	b := Bridge{Name: l.Target.Bridge, Interface: l.Snapshot.Link}
	if b.Physical = l.Target.Physical; b.Physical {
		b.Addresses = prefixes(l.Snapshot.Layer3)
		return b
	}
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

// isFree reports whether the name of a bridge is free. An ovs-vswitchd that has just started may create the link of a
// bridge whose rows were removed meanwhile, and remove it again. isFree waits for that.
func (m *Mover) isFree(ctx context.Context, sw *rows, bridge string) bool {
	if sw.isBridge(bridge) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	return awaitLink(ctx, bridge, false) == nil && !sw.isBridge(bridge)
}

// newLedger takes the snapshot of a move, and returns an ErrRefused if the link cannot be moved.
func (m *Mover) newLedger(ctx context.Context, sw *rows, name string, req Request, boot string) (*Ledger, error) {
	target := Target{Bridge: BridgeName(name), Datapath: m.cfg.Datapath, Uplink: req.Uplink, Physical: req.Physical}
	if !m.isFree(ctx, sw, target.Bridge) {
		return nil, refuse("a bridge or link %s exists already, and %s is not a port of it", target.Bridge, name)
	}
	s, err := takeSnapshot(name, m.cfg.Datapath == networkv1alpha1.DatapathNetdev)
	if err != nil {
		return nil, err
	}
	if err := m.checkMovable(s, req); err != nil {
		return nil, err
	}
	now := time.Now()
	return &Ledger{
		Phase: Moving, Attempt: uuid.NewString(), BootID: boot, Started: now,
		Deadline: now.Add(m.cfg.MoveTimeout + m.cfg.GuardGrace), Wanted: req.String(), Target: target, Snapshot: s,
	}, nil
}

// move moves a link as a commit-confirm.
func (m *Mover) move(ctx context.Context, sw *rows, l *Ledger, req Request) (Bridge, error) {
	s := l.Snapshot
	expected := answering(ctx, s.Link, targets(s, req))
	if len(expected) == 0 && req.Uplink != networkv1alpha1.UplinkInterface && !(req.Physical && len(prefixes(s.Layer3)) == 0) {
		return Bridge{}, refuse(
			"no gateway, API server or other node answers over %s, so that a move could not be verified", s.Link)
	}
	if req.Uplink == networkv1alpha1.UplinkInterface {
		expected = withoutNeighbors(expected) // after the move, OVN resolves the neighbours
	}
	if err := m.dir().write(l); err != nil {
		return Bridge{}, err
	}
	m.cfg.passed("ledger " + string(Moving))
	guard, err := startGuard(m.cfg.GuardCommand, l)
	if err != nil {
		return Bridge{}, errors.Join(err, m.dir().remove(s.Link))
	}
	defer func() {
		if err := guard.end(); err != nil {
			m.cfg.Log.Error(err, "the guard process failed", "link", s.Link)
		}
	}()
	m.cfg.Log.Info("moving a link onto its bridge", "link", s.Link, "bridge", l.Target.Bridge, "deadline", l.Deadline)
	if err := m.try(ctx, sw, l, expected); err != nil {
		m.cfg.Log.Info("the move of a link failed; rolling back", "link", s.Link, "reason", err.Error())
		if undoErr := m.undo(ctx, sw, l, l.BootID, err.Error()); undoErr != nil {
			return Bridge{}, undoErr
		}
		return Bridge{}, fmt.Errorf("%w: %w", ErrRolledBack, err)
	}
	m.cfg.Tell(s.Link, l.Target.Bridge, nil)
	return bridgeOf(l), nil
}

// try applies the steps, probes the expected targets and confirms the move, within the move's time.
func (m *Mover) try(ctx context.Context, sw *rows, l *Ledger, expected []target) error {
	end := l.Deadline.Add(-m.cfg.GuardGrace)
	ctx, cancel := context.WithDeadlineCause(ctx, end, errors.New("the move timed out"))
	defer cancel()
	if err := m.host(sw).do(ctx, Move(l.Snapshot, l.Target)); err != nil {
		return err
	}
	probing, done := context.WithTimeout(ctx, m.cfg.ProbeTimeout)
	defer done()
	if err := probe(probing, l.Target.Bridge, expected); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	l.Phase, l.Interrupted = Confirmed, 0
	if err := m.dir().write(l); err != nil {
		return err
	}
	m.cfg.passed("ledger " + string(Confirmed))
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

// Tell replaces the function of Config.Tell.
func (m *Mover) Tell(report func(link, bridge string, err error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cfg.Tell = report
}

// Bridges returns the bridges that links were moved to.
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

// Retry removes the ledgers of moves that were rolled back, so that Ensure tries those moves again.
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

// Ledgers returns the ledgers of all moves on this host.
func (m *Mover) Ledgers() ([]*Ledger, error) { return m.dir().all() }

// Release restores all links, with the addresses and routes that their bridges have now, and leaves no files behind.
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
	return os.Remove(filepath.Join(m.cfg.Dir, lockName)) // no other process needs the lock any more
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

// GiveBack restores one link that was moved for uplink Interface or for a physical network.
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
	reason := "the gateway no longer uses the link"
	if l.Target.Physical {
		reason = "no physical network uses the link"
	}
	return m.withSwitch(ctx, func(sw *rows) error { return m.release(ctx, sw, l, boot, reason) })
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
