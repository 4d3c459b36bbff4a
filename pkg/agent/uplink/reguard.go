package uplink

import (
	"cmp"
	"errors"

	"github.com/vishvananda/netlink"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/cni"
)

// ErrBusy means that a link is being moved or restored.
var ErrBusy = errors.New("a link is being moved")

// Reguard restores the guards of moved links that another program has removed, and reports whether any was missing. It does not
// wait for the lock, and returns ErrBusy without it: the guard of a link that is being restored would cut off the host.
func (m *Mover) Reguard() (changed bool, err error) {
	if ledgers, err := m.dir().all(); err != nil || len(ledgers) == 0 {
		return false, err
	}
	if !m.mu.TryLock() {
		return false, ErrBusy
	}
	defer m.mu.Unlock()
	file, err := m.tryLock()
	if file == nil {
		return false, cmp.Or(err, ErrBusy)
	}
	defer file.Close()
	boot, err := m.cfg.BootID()
	if err != nil {
		return false, err
	}
	ledgers, err := m.dir().all()
	var links []string
	for _, l := range ledgers {
		// After a reboot, the link is as the host's own configuration says.
		if l.Phase == Confirmed && l.BootID == boot && l.Target.Datapath == networkv1alpha1.DatapathNetdev && !hasAddresses(l.Snapshot.Link) {
			links = append(links, l.Snapshot.Link)
		}
	}
	if err != nil {
		return false, err
	}
	return cni.Reguard(links)
}

// hasAddresses reports whether a link has addresses, as after a give-back whose ledger could not be written.
func hasAddresses(name string) bool {
	found, err := netlink.LinkByName(name)
	if err != nil {
		return false
	}
	have, err := readLayer3(link{found.Attrs().Index, name})
	return err == nil && len(prefixes(have)) > 0
}
