package uplink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// ErrAway means that a link has its addresses and routes back, because Open vSwitch does not run. Ensure moves the link again.
var ErrAway = errors.New("Open vSwitch does not run")

const (
	// awayInterval is the time between checks of an Open vSwitch that does not run. A listener sends no event.
	awayInterval = 500 * time.Millisecond
	// watchRetry is the time until Watch subscribes to the kernel's links again.
	watchRetry = 10 * time.Second
	// awaitExtra is how much longer than the grace a start waits for Open vSwitch. Watch goes on after it.
	awaitExtra = 3 * time.Second
)

// Watch gives links their addresses and routes back when Open vSwitch has not run for Config.AwayGrace, until ctx ends. Without
// Open vSwitch, the userspace datapath forwards nothing, so that the node could not even receive another Open vSwitch. The kernel's
// datapath goes on forwarding, and needs no Watch.
func (m *Mover) Watch(ctx context.Context) {
	for m.cfg.Datapath == networkv1alpha1.DatapathNetdev && ctx.Err() == nil {
		if err := m.watch(ctx); err != nil {
			m.cfg.Log.Error(err, "cannot watch the links of bridges; retrying")
			select {
			case <-ctx.Done():
			case <-time.After(watchRetry):
			}
		}
	}
}

// watch returns nil when ctx ends, and when the kernel ends a subscription because its socket overflowed.
func (m *Mover) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	links := make(chan netlink.LinkUpdate, 64)
	if err := netlink.LinkSubscribe(links, ctx.Done()); err != nil {
		return err
	}
	defer func() {
		go func() {
			for range links { // the subscription's goroutine must not block
			}
		}()
	}()
	w := m.watcher()
	defer w.database.close()
	for {
		var again <-chan time.Time
		if w.look(ctx) {
			again = time.After(awayInterval)
		}
		for concerned := false; !concerned; {
			select {
			case <-ctx.Done():
				return nil
			case u, open := <-links:
				if !open {
					return nil
				}
				concerned = u.Link.Type() == "tuntap" // as the links of bridges are
			case <-w.database.ended:
				concerned = true
			case <-again:
				concerned = true
			}
		}
	}
}

// watcher measures how long Open vSwitch has not run.
type watcher struct {
	mover    *Mover
	database *database
	since    map[string]time.Time // by link
}

func (m *Mover) watcher() *watcher {
	return &watcher{mover: m, database: databaseOf(m.cfg.OpenVSwitch), since: map[string]time.Time{}}
}

// look gives links their addresses back that have been cut off for the grace. It returns true while links are cut off.
func (w *watcher) look(ctx context.Context) bool {
	log := w.mover.cfg.Log
	lost, err := w.mover.cutOff(w.database.runs())
	if err != nil {
		log.Error(err, "cannot read which links are cut off")
	}
	since, overdue := map[string]time.Time{}, map[string]bool{}
	for _, l := range lost {
		name := l.Snapshot.Link
		begun, known := w.since[name]
		if !known {
			begun = time.Now()
			log.Info("Open vSwitch does not run, and the host is cut off; its link gets its addresses back if that lasts",
				"link", name, "after", w.mover.cfg.AwayGrace)
		}
		since[name] = begun
		if known && time.Since(begun) >= w.mover.cfg.AwayGrace {
			overdue[name] = true
		}
	}
	w.since = since
	if len(overdue) > 0 {
		if err := w.mover.giveAllBack(ctx, w.database, overdue); err != nil {
			log.Error(err, "cannot give a link its addresses back; retrying")
		}
	}
	return len(lost) > 0 || err != nil
}

// awaitSwitch waits until Open vSwitch runs or the links have their addresses back, which takes at most a little more than the grace.
func (m *Mover) awaitSwitch(ctx context.Context) {
	if m.cfg.Datapath != networkv1alpha1.DatapathNetdev {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, m.cfg.AwayGrace+awaitExtra)
	defer cancel()
	w := m.watcher()
	defer w.database.close()
	ticker := time.NewTicker(awayInterval)
	defer ticker.Stop()
	for w.look(ctx) && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// cutOff returns the ledgers of moved links over which the host has no connection. hasDatabase is whether the database server runs:
// without it, ovs-vswitchd forwards nothing in userspace.
func (m *Mover) cutOff(hasDatabase bool) ([]*Ledger, error) {
	boot, err := m.cfg.BootID()
	if err != nil {
		return nil, err
	}
	ledgers, err := m.dir().all()
	var lost []*Ledger
	for _, l := range ledgers {
		if l.BootID != boot || l.Target.Datapath != networkv1alpha1.DatapathNetdev || l.Target.Uplink != networkv1alpha1.UplinkBridge {
			continue
		}
		interrupted := l.Phase == Undoing && l.WasAway
		if !interrupted && (l.Phase != Confirmed || hasDatabase && isAttached(l.Target.Bridge)) {
			continue
		}
		if !interrupted { // the bridge may have lost a part already
			err = errors.Join(err, refresh(l))
		}
		if len(prefixes(l.Snapshot.Layer3)) > 0 {
			lost = append(lost, l)
		}
	}
	return lost, err
}

// isAttached reports whether ovs-vswitchd has opened the link of a bridge. An ovs-vswitchd that ends leaves the link, which is
// persistent, without a carrier. A link that someone has set down counts as attached, because its carrier is unknown.
func isAttached(bridge string) bool {
	found, err := netlink.LinkByName(bridge)
	if err != nil {
		var notFound netlink.LinkNotFoundError
		return !errors.As(err, &notFound)
	}
	flags := found.Attrs().RawFlags
	return flags&unix.IFF_UP == 0 || flags&unix.IFF_LOWER_UP != 0
}

// refresh updates a ledger's snapshot with what the bridge has now, if its link has addresses.
func refresh(l *Ledger) error {
	found, err := netlink.LinkByName(l.Target.Bridge)
	if err != nil {
		return nil // the snapshot is all there is
	}
	now, err := readLayer3(link{found.Attrs().Index, l.Target.Bridge})
	if err == nil && len(prefixes(now)) > 0 {
		l.Snapshot.Layer3 = now
	}
	return err
}

// giveAllBack gives links their addresses back that are cut off and overdue.
func (m *Mover) giveAllBack(ctx context.Context, database *database, overdue map[string]bool) error {
	unlock, err := m.lock(ctx, lockTimeout)
	if err != nil {
		return err
	}
	defer unlock()
	lost, err := m.cutOff(database.runs()) // another process may have had the lock
	for _, l := range lost {
		if !overdue[l.Snapshot.Link] {
			continue
		}
		if failed := m.giveBack(ctx, l); failed != nil {
			err = errors.Join(err, fmt.Errorf("link %s: %w", l.Snapshot.Link, failed))
		}
	}
	return err
}

// giveBack gives a link its addresses and routes back, and leaves the rows to the next Open vSwitch. If the process dies meanwhile,
// the next start repeats it.
func (m *Mover) giveBack(ctx context.Context, l *Ledger) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	l.Phase, l.Reason, l.Forget, l.WasAway = Undoing, ErrAway.Error(), true, true
	if err := m.dir().write(l); err != nil {
		m.cfg.Log.Error(err, "cannot write the ledger; continuing to give the link its addresses back", "link", l.Snapshot.Link)
	}
	m.cfg.failpoint("ledger " + string(Undoing))
	back := l.Snapshot
	if err := addPresent(&back); err != nil {
		return err
	}
	if err := m.host(nil).doAll(ctx, Undo(back, l.Target, true)); err != nil {
		return err
	}
	l.Phase, l.Forget = Away, false
	if err := m.dir().write(l); err != nil {
		return err
	}
	m.cfg.failpoint("ledger " + string(Away))
	m.cfg.Log.Info("a link has its addresses and routes back, because Open vSwitch does not run", "link", l.Snapshot.Link)
	m.cfg.Report(l.Snapshot.Link, l.Target.Bridge, ErrAway)
	return nil
}

// addPresent adds to a snapshot what someone has given the link already, so that it stays.
func addPresent(s *Snapshot) error {
	found, err := netlink.LinkByName(s.Link)
	if err != nil {
		return err
	}
	have, err := readLayer3(link{found.Attrs().Index, s.Link})
	if err != nil {
		return err
	}
	s.Addresses = slices.Concat(s.Addresses, lacking(have.Addresses, s.Addresses, Message.addressKey))
	s.Routes = slices.Concat(s.Routes, lacking(have.Routes, s.Routes, Message.routeKey))
	return nil
}

// clear removes the rows of a link that has its addresses back. The ledger stays until the link is moved again, unless the host was
// rebooted.
func (m *Mover) clear(ctx context.Context, sw *rows, l *Ledger, boot string) error {
	if sw == nil {
		return nil // the rows can wait
	}
	h := m.host(sw)
	if err := errors.Join(removeTap(l.Target.Bridge), h.doAll(ctx, Undo(l.Snapshot, l.Target, false)), h.left); err != nil {
		return fmt.Errorf("remove the former bridge: %w", err)
	}
	if l.BootID != boot {
		return m.dir().remove(l.Snapshot.Link)
	}
	return nil
}

// Away returns the bridges of links that have their addresses back because Open vSwitch did not run, until they are moved again.
func (m *Mover) Away() ([]Bridge, error) {
	return m.bridges(func(l *Ledger) bool { return l.Phase != Confirmed && l.Phase != RolledBack && l.WasAway })
}

// database is a connection to Open vSwitch's database server, which shows when the server ends.
type database struct {
	path  string // empty: it has no Unix socket, and counts as running
	conn  net.Conn
	ended chan struct{} // closed when conn has ended; nil without conn
}

func databaseOf(remote string) *database {
	path, _ := strings.CutPrefix(remote, "unix:")
	if path == remote {
		path = ""
	}
	return &database{path: path}
}

// runs reports whether a server listens. A server that hangs does.
func (d *database) runs() bool {
	if d.path == "" {
		return true
	}
	if d.conn != nil {
		select {
		case <-d.ended:
			d.close()
		default:
			return true
		}
	}
	conn, err := net.Dial("unix", d.path)
	if errors.Is(err, fs.ErrNotExist) && isDeleted(filepath.Dir(d.path)) {
		return true // the server has another folder now, which this process does not see
	}
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ECONNREFUSED)
	}
	ended := make(chan struct{})
	d.conn, d.ended = conn, ended
	go func() {
		_, _ = io.Copy(io.Discard, conn)
		close(ended)
	}()
	return true
}

// isDeleted reports whether a folder that this process has as a mount was deleted.
func isDeleted(folder string) bool {
	var found unix.Stat_t
	return unix.Stat(folder, &found) == nil && found.Nlink == 0
}

func (d *database) close() {
	if d.conn != nil {
		d.conn.Close()
		d.conn, d.ended = nil, nil
	}
}
