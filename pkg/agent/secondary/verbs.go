package secondary

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/weft-network/weft/pkg/agent/attach"
	"github.com/weft-network/weft/pkg/cni/cniwire"
)

// Check implements attach.Secondary: CHECK of the interfaces that other plugins made for a sandbox. A plugin whose
// configuration is older than CHECK is not called.
func (n *Networks) Check(ctx context.Context, containerID string) error {
	if n.Delegates == nil {
		return nil
	}
	records, err := n.Delegates.records(containerID)
	if err != nil {
		return err
	}
	for _, r := range records {
		if err := n.Delegates.check(ctx, &r); err != nil {
			return cniwire.Errorf(cniwire.CodeInternal, "interface %s of %s: %v", r.Interface, r.Definition, err)
		}
	}
	return nil
}

func (d *Delegates) check(ctx context.Context, r *record) error {
	if !r.Done {
		return errors.New("its ADD did not come to an end")
	}
	list, err := libcni.ConfListFromBytes(r.Config)
	if err != nil {
		return err
	}
	err = d.cni().CheckNetworkList(ctx, list, r.runtime())
	if errors.Is(err, libcni.ErrorCheckNotSupp) {
		return nil
	}
	return err
}

// Collect implements attach.Secondary: what sandboxes left is deleted, and each plugin that attached something gets GC with
// the attachments that are valid. No ADD and DEL of a plugin runs meanwhile, as the specification wants.
func (n *Networks) Collect(ctx context.Context) error {
	if n.Delegates == nil {
		return nil
	}
	_, failures := n.removeAllLeft(ctx)
	return errors.Join(failures, n.Delegates.collect(ctx))
}

// collect runs GC for each CNI network that has attachments.
func (d *Delegates) collect(ctx context.Context) error {
	d.exclusive.Lock()
	defer d.exclusive.Unlock()
	records, err := d.records("")
	if err != nil {
		return err
	}
	lists, valid := map[string]*libcni.NetworkConfigList{}, map[string][]types.GCAttachment{}
	var failures error
	for _, r := range records {
		list, err := libcni.ConfListFromBytes(r.Config)
		if err != nil {
			return fmt.Errorf("record of interface %s of %s: %w", r.Interface, r.Definition, err) // a list without it would delete it
		}
		lists[list.Name] = list // the newest configuration
		valid[list.Name] = append(valid[list.Name], types.GCAttachment{ContainerID: r.Sandbox.ContainerID, IfName: r.Interface})
	}
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		if err := d.cni().GCNetworkList(ctx, lists[name], &libcni.GCArgs{ValidAttachments: valid[name]}); err != nil {
			failures = errors.Join(failures, fmt.Errorf("GC of CNI network %s: %w", name, err))
		}
	}
	return failures
}

// isReady runs STATUS of a list's plugins. A configuration that is older than STATUS is always ready.
func (d *Delegates) isReady(ctx context.Context, list *libcni.NetworkConfigList) error {
	if err := d.cni().GetStatusNetworkList(ctx, list); err != nil {
		return fmt.Errorf("plugin: STATUS: %w", err)
	}
	return nil
}

var _ attach.Secondary = &Networks{}
