package attach

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/cni"
	"github.com/weft-network/weft/pkg/cni/tombstone"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/unit"
)

// Attachments are the pods' interfaces on this node. Their record is in Open vSwitch, with a copy in files. The agent reads it
// at its start and removes what a crash left half done.
type Attachments struct {
	Engine *ovndb.Engine // of the Open_vSwitch database
	// Bridge returns the UUID of br-int once it exists.
	Bridge     func() (uuid string, ok bool)
	Tombstones tombstone.Folder
	Copies     Copies
	// Buried receives each attachment whose DEL came while no agent ran.
	Buried func(a desired.Attachment)
	// Restored, if set, is called once the record is read.
	Restored func()
	// Moved, if set, is called after an interface was added or removed.
	Moved func(interfaceID string)
	// Uncopied, if set, is called when a copy of the record could not be written, as Copied reports.
	Uncopied func()

	uncopied atomic.Bool

	tunnels atomic.Pointer[[]netip.Addr] // desired.Chassis.Tunnels

	mu   sync.Mutex
	byID map[string]Held // by interface ID; the newest sandbox's attachment
	on   place           // of all interfaces
	read bool            // the record has been read
}

// place is what the interfaces' rows depend on besides the attachments.
type place struct {
	bridge  string // UUID of br-int
	tunnels []netip.Addr
}

// SetTunnels sets the addresses to which other nodes tunnel, for the interfaces that are added or restored from now on. Follow
// moves the others.
func (a *Attachments) SetTunnels(addresses []netip.Addr) { a.tunnels.Store(&addresses) }

// place returns the present place. ok is false while br-int is not there.
func (a *Attachments) place() (p place, ok bool) {
	if tunnels := a.tunnels.Load(); tunnels != nil {
		p.tunnels = *tunnels
	}
	p.bridge, ok = a.Bridge()
	return p, ok
}

func (p place) is(q place) bool { return p.bridge == q.bridge && slices.Equal(p.tunnels, q.tunnels) }

func (p place) unit(a desired.Attachment) unit.Unit {
	return desired.AttachmentUnit(a, p.bridge, p.tunnels)
}

// Held is an attachment, and the time at which this process added or read it.
type Held struct {
	desired.Attachment
	since time.Time
}

// Restore reads the record after Open vSwitch is connected; later calls do nothing. It removes interfaces whose link is
// gone, links without an interface, and interfaces that a tombstone names.
func (a *Attachments) Restore(ctx context.Context) error {
	if a.Ready() {
		return nil
	}
	if err := a.restore(ctx); err != nil {
		return err
	}
	if a.Restored != nil {
		a.Restored()
	}
	return nil
}

func (a *Attachments) restore(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	on, ok := a.place()
	if !ok {
		return fmt.Errorf("restore interfaces: bridge %s is not there", names.IntegrationBridge)
	}
	links, err := cni.List()
	if err != nil {
		return fmt.Errorf("restore interfaces: %w", err)
	}
	byName := map[string]cni.HostLink{}
	for _, link := range links {
		byName[link.Name] = link
	}
	dead, err := a.readTombstones()
	if err != nil {
		return fmt.Errorf("restore interfaces: %w", err)
	}
	copies, err := a.Copies.list()
	if err != nil {
		return fmt.Errorf("restore interfaces: %w", err)
	}
	a.byID = map[string]Held{}
	isPods := func(i *vswitchdb.Interface) bool { _, ok := desired.ParseAttachment(i); return ok }
	record := map[string]bool{} // ports in Open vSwitch's record
	for _, row := range ovndb.List(a.Engine.Conn, isPods) {
		found, _ := desired.ParseAttachment(row)
		record[found.InterfaceID] = true
		if err := a.restoreOne(ctx, on, found, dead, byName); err != nil {
			return err
		}
	}
	for _, found := range copies {
		if record[found.InterfaceID] {
			continue
		}
		if err := a.restoreOne(ctx, on, found, dead, byName); err != nil {
			return err
		}
	}
	if err := a.matchCopies(copies); err != nil {
		return err
	}
	for _, link := range byName {
		if err := RemoveLink(link); err != nil {
			return err
		}
	}
	if err := errors.Join(cni.SweepGuards(), dead.remove(a.Tombstones)); err != nil {
		return err
	}
	a.on, a.read = on, true
	return nil
}

// restoreOne keeps an attachment of the record if its link is among links, from which it is then removed. It removes the rows
// of another attachment.
func (a *Attachments) restoreOne(
	ctx context.Context, on place, found desired.Attachment, dead tombstones, links map[string]cni.HostLink,
) error {
	want := unit.Unit{Key: desired.AttachmentKey(found.InterfaceID)}
	if dead.name(found) {
		a.Buried(found)
	} else if link, ok := links[found.HostName]; ok && link.ContainerID == found.ContainerID {
		want = on.unit(found)
		a.byID[found.InterfaceID] = Held{found, time.Now()}
		delete(links, found.HostName)
	}
	if err := a.Engine.Apply(ctx, want); err != nil && !ovndb.IsPending(err) {
		return fmt.Errorf("restore interface %s: %w", found.InterfaceID, err)
	}
	return nil
}

// matchCopies keeps exactly the copies that belong to restored attachments, and writes the missing ones.
func (a *Attachments) matchCopies(present []desired.Attachment) (failures error) {
	for _, found := range present {
		have, ok := a.byID[found.InterfaceID]
		if !ok || have.ContainerID != found.ContainerID || have.IfName != found.IfName {
			failures = errors.Join(failures, a.Copies.remove(found.ContainerID, found.IfName))
		}
	}
	for _, have := range a.byID {
		failures = errors.Join(failures, a.Copies.put(have.Attachment))
	}
	return failures
}

// Follow moves the interfaces to a new integration bridge, or to other tunnels. After Open vSwitch was emptied,
// ovn-controller may have created br-int before the agent.
func (a *Attachments) Follow(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	now, ok := a.place()
	if !ok || now.is(a.on) {
		return nil
	}
	for id, have := range a.byID {
		if err := a.Engine.Apply(ctx, now.unit(have.Attachment)); err != nil {
			return fmt.Errorf("interface %s: %w", id, err)
		}
	}
	a.on = now
	return nil
}

// RemoveLink removes a link that a crash left behind.
func RemoveLink(link cni.HostLink) error {
	if link.ContainerID != "" {
		return cni.Detach(link.ContainerID, link.IfName)
	}
	found, err := netlink.LinkByIndex(link.Index)
	if err != nil {
		return nil // already gone
	}
	if err := netlink.LinkDel(found); err != nil {
		return fmt.Errorf("remove half-made link %s: %w", link.Name, err)
	}
	return nil
}

// add makes the interface that of its logical port. It removes the link of an earlier sandbox of the port, which no
// longer works and whose DEL may never come.
func (a *Attachments) add(ctx context.Context, want desired.Attachment) error {
	a.mu.Lock()
	former, replaces := a.byID[want.InterfaceID]
	a.byID[want.InterfaceID] = Held{want, time.Now()}
	a.mu.Unlock()
	for {
		on, ok := a.place()
		if !ok {
			return fmt.Errorf("interface %s: the integration bridge is not there", want.InterfaceID)
		}
		if err := a.Engine.Apply(ctx, on.unit(want)); err != nil {
			return err
		}
		if now, ok := a.place(); !ok || now.is(on) {
			break // otherwise Follow may have missed this interface
		}
	}
	a.notify(want.InterfaceID)
	if err := a.Copies.put(want); err != nil {
		a.uncopied.Store(true)
		if a.Uncopied != nil {
			a.Uncopied()
		}
		return &uncopiedError{err}
	}
	if replaces && (former.ContainerID != want.ContainerID || former.IfName != want.IfName) {
		return errors.Join(a.Copies.remove(former.ContainerID, former.IfName), cni.Detach(former.ContainerID, former.IfName))
	}
	return nil
}

// uncopiedError means that an interface was made, and its copy was not.
type uncopiedError struct{ error }

// Copied returns an error while no copy of the record can be written, as on a full disk: no pod can start then. After a failure it tries
// again.
func (a *Attachments) Copied() error {
	if !a.uncopied.Load() {
		return nil
	}
	if err := a.Copies.try(); err != nil {
		return err
	}
	a.uncopied.Store(false)
	return nil
}

// remove removes the interface of a sandbox, but not that of a newer sandbox of the same port. interfaceID is empty if
// the runtime did not name the pod.
func (a *Attachments) remove(ctx context.Context, interfaceID, containerID, ifName string) error {
	a.mu.Lock()
	if interfaceID == "" {
		interfaceID = a.find(containerID, ifName)
	}
	have, ok := a.byID[interfaceID]
	if !ok || have.ContainerID != containerID || have.IfName != ifName {
		a.mu.Unlock()
		return nil
	}
	delete(a.byID, interfaceID)
	a.mu.Unlock()
	a.notify(interfaceID)
	err := a.Engine.Apply(ctx, unit.Unit{Key: desired.AttachmentKey(interfaceID)})
	if ovndb.IsPending(err) {
		err = nil // the rows are removed when Open vSwitch is back
	}
	return errors.Join(err, a.Copies.remove(containerID, ifName))
}

// notify calls Moved, after the change of byID, because the receiver reads byID.
func (a *Attachments) notify(interfaceID string) {
	if a.Moved != nil {
		a.Moved(interfaceID)
	}
}

func (a *Attachments) find(containerID, ifName string) string {
	for id, have := range a.byID {
		if have.ContainerID == containerID && have.IfName == ifName {
			return id
		}
	}
	return ""
}

// Get returns the attachment of a logical port.
func (a *Attachments) Get(interfaceID string) (desired.Attachment, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	have, ok := a.byID[interfaceID]
	return have.Attachment, ok
}

// interfaceOf returns the name of another interface that a sandbox has on a logical port; empty if it has none.
func (a *Attachments) interfaceOf(interfaceID, containerID, ifName string) string {
	if have, ok := a.Get(interfaceID); ok && have.ContainerID == containerID && have.IfName != ifName {
		return have.IfName
	}
	return ""
}

// All returns the attachments in undefined order.
func (a *Attachments) All() []Held {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Values(a.byID))
}

// Count returns the number of attachments to the cluster network: one for each pod.
func (a *Attachments) Count() (count int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id := range a.byID {
		if _, _, ofCluster := names.ParsePodPort(id); ofCluster {
			count++
		}
	}
	return count
}

// Ready reports whether the record has been read.
func (a *Attachments) Ready() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.read
}

// PodAt returns the pod of this node that has an address on the cluster network, as "namespace/name", or an empty string.
func (a *Attachments) PodAt(address netip.Addr) string {
	for _, have := range a.All() {
		if namespace, pod, ok := names.ParsePodPort(have.InterfaceID); ok && slices.Contains(have.Addresses, address) {
			return namespace + "/" + pod
		}
	}
	return ""
}
