package cni

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
)

// List returns the host's ends of all interfaces that Attach created. It includes links that Attach left unfinished
// because the process ended; they have no owner.
func List() ([]HostLink, error) {
	links, err := allLinks()
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	var ours []HostLink
	for _, link := range links {
		if hostLink, ok := HostLinkOf(link); ok {
			ours = append(ours, hostLink)
		}
	}
	return ours, nil
}

// allLinks lists the links. It retries if links changed meanwhile, because the kernel then marks its answer as
// possibly incomplete. On a busy node that may happen several times in a row.
func allLinks() ([]netlink.Link, error) {
	const attempts = 10
	for range attempts - 1 {
		links, err := netlink.LinkList()
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			return links, err
		}
	}
	return netlink.LinkList()
}

// HostLinkOf returns the interface that a link of the host belongs to. ok is false for other links. A link that Attach has
// not finished has no owner.
func HostLinkOf(link netlink.Link) (found HostLink, ok bool) {
	attrs := link.Attrs()
	if link.Type() != "veth" {
		return HostLink{}, false
	}
	containerID, ifName, owned := ownerOf(attrs.Alias)
	unfinished := attrs.Alias == "" && isHostName(attrs.Name)
	return HostLink{Name: attrs.Name, Index: attrs.Index, ContainerID: containerID, IfName: ifName}, owned || unfinished
}
