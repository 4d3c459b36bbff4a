package cni

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Detach removes the interface. A missing interface is not an error. The pod's namespace may be gone.
func Detach(containerID, ifName string) error {
	host, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	defer host.Close()
	if err := remove(host, HostName(containerID, ifName), aliasOf(containerID, ifName)); err != nil {
		return fmt.Errorf("interface %s of container %s: %w", ifName, containerID, err)
	}
	return nil
}

// remove deletes a link that Attach created, together with the pod's end, and then its guard. In this order no frame
// reaches the host's stack in between.
func remove(host *netlink.Handle, name, alias string) error {
	if err := removeLink(host, name, alias); err != nil {
		return err
	}
	return unguard(name)
}

func removeLink(host *netlink.Handle, name, alias string) error {
	link, err := host.LinkByName(name)
	if isNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	if other := link.Attrs().Alias; link.Type() != "veth" || other != "" && other != alias {
		return fmt.Errorf("link %s is not Weft's but a %s with alias %q", name, link.Type(), other)
	}
	// The pod's namespace may end at this moment and delete both ends.
	if err := host.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("delete link %s: %w", name, err)
	}
	return nil
}

func isNotFound(err error) bool {
	var notFound netlink.LinkNotFoundError
	return errors.As(err, &notFound)
}
