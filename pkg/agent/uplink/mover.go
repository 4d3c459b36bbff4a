package uplink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// maxInterrupted is the number of consecutive moves that may end with their process. After that the mover does not retry.
const maxInterrupted = 3

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
	// SwitchTimeout limits the wait for Open vSwitch; the default is 5 s.
	SwitchTimeout time.Duration
	// AwayGrace is how long Open vSwitch may not run before moved links get their addresses back; the default is 10 s.
	AwayGrace time.Duration
	// GuardCommand starts the guard. The mover adds --link, --attempt and --timeout. The command must call Mover.Guard.
	GuardCommand []string
	// BootID returns an ID that changes with each boot. Nil means the kernel's boot ID.
	BootID func() (string, error)
	// Report, if set, receives the outcome of each move: nil for a moved link, or an ErrRolledBack with the reason. It receives ErrAway
	// for a link that has its addresses back.
	Report func(link, bridge string, err error)
	Log    logr.Logger

	// failpoint, if set, is called after each change to the host. Tests end the process there.
	failpoint func(point string)
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
	cfg.SwitchTimeout = cmp.Or(cfg.SwitchTimeout, 5*time.Second)
	cfg.AwayGrace = cmp.Or(cfg.AwayGrace, 10*time.Second)
	if cfg.BootID == nil {
		cfg.BootID = kernelBootID
	}
	if cfg.Report == nil {
		cfg.Report = func(string, string, error) {}
	}
	if cfg.failpoint == nil {
		cfg.failpoint = func(string) {}
	}
	return &Mover{cfg: cfg}
}

func kernelBootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text)), err
}

func (m *Mover) dir() folder { return folder(m.cfg.Dir) }

// withSwitch calls do with a connection to Open vSwitch, or with nil if it cannot connect.
func (m *Mover) withSwitch(ctx context.Context, do func(*rows) error) error {
	sw, err := connect(ctx, m.cfg.OpenVSwitch, m.cfg.SwitchTimeout, m.cfg.Log)
	if err != nil {
		m.cfg.Log.Info("cannot connect to Open vSwitch", "reason", err.Error())
	}
	defer sw.close()
	return do(sw)
}

func (m *Mover) host(sw *rows) *host { return &host{rows: sw, failpoint: m.cfg.failpoint} }

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
	for _, l := range ledgers {
		if l.Phase == Away && l.Target.Bridge == name {
			name = l.Snapshot.Link
		}
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
	if former != nil && former.Phase == Away { // ovs-vswitchd may still be closing the link
		l.Snapshot.Promiscuous = former.Snapshot.Promiscuous
		l.WasAway, l.Target.Physical = true, former.Target.Physical
	}
	return m.move(ctx, sw, l, req)
}

// mayRepeat reports whether a move that was rolled back may be tried again. A failing move can disconnect the node for
// as long as MoveTimeout, so that it is not repeated unless it was interrupted, or the request or the boot has changed.
func mayRepeat(former *Ledger, req Request, boot string) bool {
	interrupted := former.Interrupted > 0 && former.Interrupted < maxInterrupted
	return former.Phase == Away ||
		former.Phase == RolledBack && (interrupted || former.Wanted != req.String() || former.BootID != boot)
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

// SetReport replaces Config.Report.
func (m *Mover) SetReport(report func(link, bridge string, err error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cfg.Report = report
}

// Bridges returns the bridges that links were moved to.
func (m *Mover) Bridges() ([]Bridge, error) {
	return m.bridges(func(l *Ledger) bool { return l.Phase == Confirmed })
}

func (m *Mover) bridges(of func(*Ledger) bool) ([]Bridge, error) {
	ledgers, err := m.dir().all()
	var found []Bridge
	for _, l := range ledgers {
		if of(l) {
			found = append(found, bridgeOf(l))
		}
	}
	return found, err
}

// Ledgers returns the ledgers of all moves on this host.
func (m *Mover) Ledgers() ([]*Ledger, error) { return m.dir().all() }
