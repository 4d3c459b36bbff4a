package cni

import (
	"fmt"

	"github.com/vishvananda/netlink"
)

// List returns the host's ends of all interfaces that Attach made, and of those
// that it left half made because the process ended: they lack an owner.
func List() ([]HostLink, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	var ours []HostLink
	for _, link := range links {
		if hostLink, ok := hostLinkOf(link); ok {
			ours = append(ours, hostLink)
		}
	}
	return ours, nil
}

func hostLinkOf(link netlink.Link) (HostLink, bool) {
	attrs := link.Attrs()
	if link.Type() != "veth" {
		return HostLink{}, false
	}
	containerID, ifName, owned := ownerOf(attrs.Alias)
	halfMade := attrs.Alias == "" && isHostName(attrs.Name)
	return HostLink{Name: attrs.Name, Index: attrs.Index, ContainerID: containerID, IfName: ifName}, owned || halfMade
}
