package attach

import (
	"errors"
	"slices"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/cni/cniwire"
	"github.com/weft-network/weft/pkg/cni/tombstone"
)

// tombstones are the tombstones that existed at the start.
type tombstones []tombstone.Tombstone

// readTombstones reads the tombstones. It logs the invalid ones, which List removes.
func (a *Attachments) readTombstones() (tombstones, error) {
	found, refused, err := a.Tombstones.List()
	for _, why := range refused {
		ctrl.Log.WithName("tombstones").Error(why, "Removed an invalid tombstone")
	}
	return found, err
}

// name reports whether a tombstone names the attachment, so that its DEL has come.
func (s tombstones) name(a desired.Attachment) bool {
	return slices.ContainsFunc(s, func(one tombstone.Tombstone) bool {
		// The DEL of a sandbox names its interface on the cluster network, and means the secondary interfaces too.
		return one.Names(a.ContainerID, a.IfName, a.PodUID) || a.Request != "" && one.ContainerID == a.ContainerID
	})
}

// remove removes the tombstones. It is called after all interfaces that they name are removed.
func (s tombstones) remove(folder tombstone.Folder) (failures error) {
	for _, one := range s {
		failures = errors.Join(failures, folder.Remove(one.ContainerID, one.IfName))
	}
	return failures
}

// bury stores a DEL as a tombstone before the record is read. done is false if the record was read meanwhile.
func (a *Attachments) bury(req cniwire.Request) (done bool, err error) {
	if err := a.Tombstones.Put(tombstone.Tombstone{ContainerID: req.ContainerID, IfName: req.IfName, Args: req.Args}); err != nil {
		return false, err
	}
	// Restore holds the lock while it lists the tombstones and reads the record. If the record is still unread here,
	// Restore has not listed the tombstones yet.
	return !a.Ready(), nil
}
