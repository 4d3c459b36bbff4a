package cni

import (
	"errors"
	"fmt"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Attach creates the interface. It first removes what an earlier attempt for the same container and interface left
// behind. If it fails, nothing remains. It returns a *cniwire.Error if NetNS is not a network namespace or is the
// host's own.
func Attach(want PodInterface) (Attachment, error) {
	attachment, err := attach(want)
	if err != nil {
		return Attachment{}, fmt.Errorf("interface %s of container %s: %w", want.IfName, want.ContainerID, err)
	}
	return attachment, nil
}

func attach(want PodInterface) (Attachment, error) {
	if err := want.validate(); err != nil {
		return Attachment{}, err
	}
	if want.HostName == "" {
		want.HostName = HostName(want.ContainerID, want.IfName)
	}
	ns, err := openNetNS(want.NetNS)
	if err != nil {
		return Attachment{}, err
	}
	defer ns.Close()
	host, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return Attachment{}, fmt.Errorf("netlink: %w", err)
	}
	defer host.Close()

	if err := remove(host, want.HostName, aliasOf(want.ContainerID, want.IfName)); err != nil {
		return Attachment{}, err
	}
	attachment, err := build(host, ns, want)
	if err != nil {
		err = errors.Join(err, remove(host, want.HostName, aliasOf(want.ContainerID, want.IfName)))
	}
	return attachment, err
}

// build creates both ends. The host's end comes up after it is guarded, and before the pod's end is configured, so
// that the pod's end has a carrier when it gets its addresses.
func build(host *netlink.Handle, ns *os.File, want PodInterface) (Attachment, error) {
	if err := host.LinkAdd(pairOf(want, ns)); err != nil {
		return Attachment{}, fmt.Errorf("create veth %s: %w", want.HostName, err)
	}
	link, err := finishHost(host, want)
	if err != nil {
		return Attachment{}, err
	}
	attachment := Attachment{
		HostName:  want.HostName,
		HostIndex: link.Attrs().Index,
		HostMAC:   link.Attrs().HardwareAddr,
		MAC:       want.MAC,
	}
	err = inNetNS(ns, func() error {
		attachment.PodIndex, err = configurePod(want)
		return err
	})
	return attachment, err
}

func pairOf(want PodInterface, ns *os.File) *netlink.Veth {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = want.HostName
	attrs.HardwareAddr = hostMAC(want.ContainerID, want.IfName)
	attrs.MTU = want.MTU
	pair := netlink.NewVeth(attrs)
	pair.PeerName = want.IfName
	pair.PeerHardwareAddr = want.MAC
	pair.PeerNamespace = netlink.NsFd(ns.Fd())
	pair.PeerMTU = uint32(want.MTU)
	return pair
}

// finishHost sets the alias and the guard of the host's end and brings it up. The host's end gets no IPv6 address,
// because its packets would reach the pod without passing OVN.
func finishHost(host *netlink.Handle, want PodInterface) (netlink.Link, error) {
	link, err := host.LinkByName(want.HostName)
	if err != nil {
		return nil, fmt.Errorf("link %s: %w", want.HostName, err)
	}
	if err := host.LinkSetAlias(link, aliasOf(want.ContainerID, want.IfName)); err != nil {
		return nil, fmt.Errorf("link %s: set alias: %w", want.HostName, err)
	}
	if err := disableIPv6Autoconf(host, link); err != nil {
		return nil, fmt.Errorf("link %s: %w", want.HostName, err)
	}
	if want.IngressGuard {
		if err := Guard(want.HostName); err != nil {
			return nil, err
		}
	}
	if err := host.LinkSetUp(link); err != nil {
		return nil, fmt.Errorf("link %s: set up: %w", want.HostName, err)
	}
	return link, nil
}
