package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/cni"
	"github.com/weft-network/weft/pkg/names"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/tombstone"
	"github.com/weft-network/weft/pkg/unit"
	"github.com/weft-network/weft/pkg/vswitchdb"
)

// attachments are the pods' interfaces on this node. The record is in Open vSwitch: it is read back at the start, and what a
// crash left half done is taken away.
type attachments struct {
	engine     *ovndb.Engine
	bridge     func() (uuid string, ok bool)
	tombstones tombstone.Folder
	buried     func(a desired.Attachment) // is told of each whose DEL came while no agent ran

	mu   sync.Mutex
	byID map[string]held // interface id -> the newest sandbox's
	on   string          // UUID of the bridge that all are on
	read bool
}

// held is an attachment and since when this process knows it.
type held struct {
	desired.Attachment
	since time.Time
}

// restore reads the record once Open vSwitch is connected. An interface whose link is gone is removed, and so is a link that
// no interface names. What a tombstone names is not kept.
func (a *attachments) restore(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.read {
		return nil
	}
	bridge, ok := a.bridge()
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
	dead, err := a.deadOnes()
	if err != nil {
		return fmt.Errorf("restore interfaces: %w", err)
	}
	a.byID = map[string]held{}
	for _, row := range ovndb.List(a.engine.Conn, func(i *vswitchdb.Interface) bool { _, ok := desired.ParseAttachment(i); return ok }) {
		found, _ := desired.ParseAttachment(row)
		want := unit.Unit{Key: desired.AttachmentKey(found.InterfaceID)}
		if dead.name(found) {
			a.buried(found)
		} else if link, ok := byName[found.HostName]; ok && link.ContainerID == found.ContainerID {
			want = desired.AttachmentUnit(found, bridge)
			a.byID[found.InterfaceID] = held{found, time.Now()}
			delete(byName, found.HostName)
		}
		if err := a.engine.Apply(ctx, want); err != nil && !ovndb.IsPending(err) {
			return fmt.Errorf("restore interface %s: %w", found.InterfaceID, err)
		}
	}
	for _, link := range byName {
		if err := removeLink(link); err != nil {
			return err
		}
	}
	if err := errors.Join(cni.SweepGuards(), dead.remove(a.tombstones)); err != nil {
		return err
	}
	a.on, a.read = bridge, true
	return nil
}

// follow moves the interfaces to the bridge that took the place of the one they were on: when Open vSwitch was emptied,
// ovn-controller may have made br-int before us.
func (a *attachments) follow(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	bridge, ok := a.bridge()
	if !ok || bridge == a.on {
		return nil
	}
	for id, have := range a.byID {
		if err := a.engine.Apply(ctx, desired.AttachmentUnit(have.Attachment, bridge)); err != nil {
			return fmt.Errorf("interface %s: %w", id, err)
		}
	}
	a.on = bridge
	return nil
}

// removeLink removes a link that a crash left behind.
func removeLink(link cni.HostLink) error {
	if link.ContainerID != "" {
		return cni.Detach(link.ContainerID, link.IfName)
	}
	found, err := netlink.LinkByIndex(link.Index)
	if err != nil {
		return nil // gone by itself
	}
	if err := netlink.LinkDel(found); err != nil {
		return fmt.Errorf("remove half-made link %s: %w", link.Name, err)
	}
	return nil
}

// add makes the interface the one of its logical port. The link of a former sandbox of the port goes: nothing is behind it any more, and
// its DEL may never come.
func (a *attachments) add(ctx context.Context, want desired.Attachment) error {
	a.mu.Lock()
	former, replaces := a.byID[want.InterfaceID]
	a.byID[want.InterfaceID] = held{want, time.Now()}
	a.mu.Unlock()
	for {
		bridge, ok := a.bridge()
		if !ok {
			return fmt.Errorf("interface %s: the integration bridge is not there", want.InterfaceID)
		}
		if err := a.engine.Apply(ctx, desired.AttachmentUnit(want, bridge)); err != nil {
			return err
		}
		if now, ok := a.bridge(); !ok || now == bridge {
			break // else follow may have been before us
		}
	}
	if replaces && (former.ContainerID != want.ContainerID || former.IfName != want.IfName) {
		return cni.Detach(former.ContainerID, former.IfName)
	}
	return nil
}

// remove takes the interface of a sandbox away; one of a newer sandbox of the same port stays. interfaceID is empty when the
// runtime did not name the pod.
func (a *attachments) remove(ctx context.Context, interfaceID, containerID, ifName string) error {
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
	err := a.engine.Apply(ctx, unit.Unit{Key: desired.AttachmentKey(interfaceID)})
	if ovndb.IsPending(err) {
		return nil // it goes when Open vSwitch is back
	}
	return err
}

func (a *attachments) find(containerID, ifName string) string {
	for id, have := range a.byID {
		if have.ContainerID == containerID && have.IfName == ifName {
			return id
		}
	}
	return ""
}

// get returns the attachment of a logical port.
func (a *attachments) get(interfaceID string) (desired.Attachment, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	have, ok := a.byID[interfaceID]
	return have.Attachment, ok
}

// all returns the attachments in no order.
func (a *attachments) all() []held {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Values(a.byID))
}

func (a *attachments) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.byID)
}

func (a *attachments) ready() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.read
}
