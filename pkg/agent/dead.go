package agent

import (
	"errors"
	"slices"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/cniwire"
	"github.com/weft-network/weft/pkg/tombstone"
)

// tombstones are those that were found at the start.
type tombstones []tombstone.Tombstone

// deadOnes reads the tombstones. One that cannot be read was removed, and is only told.
func (a *attachments) deadOnes() (tombstones, error) {
	found, refused, err := a.tombstones.List()
	for _, why := range refused {
		ctrl.Log.WithName("tombstones").Error(why, "Removed what is no tombstone")
	}
	return found, err
}

// name reports whether the attachment's DEL has come.
func (s tombstones) name(a desired.Attachment) bool {
	return slices.ContainsFunc(s, func(one tombstone.Tombstone) bool { return one.Names(a.ContainerID, a.IfName, a.PodUID) })
}

// remove removes them when nothing of what they name is left.
func (s tombstones) remove(folder tombstone.Folder) (failures error) {
	for _, one := range s {
		failures = errors.Join(failures, folder.Remove(one.ContainerID, one.IfName))
	}
	return failures
}

// bury notes a DEL that came before the record was read; done is false if it was read meanwhile.
func (a *attachments) bury(req cniwire.Request) (done bool, err error) {
	if err := a.tombstones.Put(tombstone.Tombstone{ContainerID: req.ContainerID, IfName: req.IfName, Args: req.Args}); err != nil {
		return false, err
	}
	// restore holds the lock from before it lists until it has read: whoever sees it unread was before the list.
	return !a.ready(), nil
}
