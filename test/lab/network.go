package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/test/lab/state"
)

const (
	fabric = "fab" // the network namespace that represents the physical network
	bridge = "br0"
	uplink = "eth0"

	secondBridge = "br1"
	secondUplink = "eth1"
)

// makeNetwork creates all network namespaces and the links between them. It adds nothing to this machine's own
// namespace.
func (c *Cluster) makeNetwork(s *state.State, nodes []Machine) error {
	if err := c.makeNetns(s, fabric); err != nil {
		return err
	}
	for _, name := range []string{bridge, secondBridge} {
		if err := c.in(fabric, func() error { return makeBridge(name) }); err != nil {
			return err
		}
	}
	for _, place := range []struct {
		machines []Machine
		cable    func(Machine) error
		prepare  func(Machine) error
	}{
		{[]Machine{Router()}, c.plugIntoFabric, Machine.prepareRouter},
		{[]Machine{ControlPlane()}, c.plugIntoFabric, Machine.prepareHost},
		{hosts(), c.plugIntoRouter, Machine.prepareHost},
		{nodes, c.plugIntoFabric, Machine.prepareUplink},
	} {
		for _, m := range place.machines {
			if err := c.makeMachineNetwork(s, m, place.cable, place.prepare); err != nil {
				return fmt.Errorf("network of %s: %w", m.Name, err)
			}
		}
	}
	for _, m := range append([]Machine{Router()}, nodes...) {
		if err := c.addSecond(m); err != nil {
			return fmt.Errorf("second network of %s: %w", m.Name, err)
		}
	}
	return c.in(Router().Name, addInternetRoutes)
}

// addSecond connects a machine to the second network.
func (c *Cluster) addSecond(m Machine) error {
	second := m.Second()
	if err := c.connect(second, secondUplink, fabric, m.Name+"-2", plugInto(secondBridge)); err != nil {
		return err
	}
	return c.in(m.Name, func() error {
		link, err := netlink.LinkByName(secondUplink)
		if err != nil {
			return err
		}
		return errors.Join(disableOffload(secondUplink), addAddresses(link, second.prefixes()), setUp(secondUplink))
	})
}

func (c *Cluster) makeMachineNetwork(s *state.State, m Machine, cable, prepare func(Machine) error) error {
	if err := c.makeNetns(s, m.Name); err != nil {
		return err
	}
	if err := cable(m); err != nil {
		return err
	}
	return c.in(m.Name, func() error { return errors.Join(disableOffload(uplink), prepare(m)) })
}

func (c *Cluster) makeNetns(s *state.State, machine string) error {
	name := c.netns(machine)
	if err := s.AddNetns(name); err != nil {
		return err
	}
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread enters the new namespace and ends with this goroutine
		handle, err := netns.NewNamed(name)
		if err == nil {
			err = handle.Close()
		}
		made <- err
	}()
	if err := <-made; err != nil {
		return fmt.Errorf("network namespace %s: %w", name, err)
	}
	return c.in(machine, func() error { return setUp("lo") })
}

// namespaces is the folder of named network namespaces.
const namespaces = "/run/netns"

// deleteNetns deletes a named network namespace. "ip netns add" mounts the folder over itself, and hides the mount of an older
// namespace, so that its file is busy. In a mount namespace of its own this function takes off what hides the mount. When the
// file goes there, the kernel detaches its mounts everywhere.
func deleteNetns(name string) error {
	deleted := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread enters the new namespace and ends with this goroutine
		deleted <- errors.Join(unix.Unshare(unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""), uncover(name))
	}()
	if err := <-deleted; err != nil {
		return fmt.Errorf("delete network namespace %s: %w", name, err)
	}
	return nil
}

// uncover deletes a file, below as many mounts of its folder as there are.
func uncover(name string) error {
	path := filepath.Join(namespaces, name)
	for {
		if err := unix.Unmount(path, unix.MNT_DETACH); err == nil {
			continue
		} else if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			return err
		}
		err := os.Remove(path)
		if !errors.Is(err, unix.EBUSY) {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		if below := unix.Unmount(namespaces, unix.MNT_DETACH); below != nil {
			return err
		}
	}
}

// in runs a function on a thread in a machine's network namespace.
func (c *Cluster) in(machine string, do func() error) error {
	return ns.WithNetNSPath(c.netnsPath(machine), func(ns.NetNS) error { return do() })
}

func makeBridge(name string) error {
	off := false
	link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name, MTU: fabricMTU}, MulticastSnooping: &off}
	if err := netlink.LinkAdd(link); err != nil {
		return fmt.Errorf("bridge %s: %w", name, err)
	}
	// Otherwise netfilter of this namespace would see, and could drop, frames that the bridge only forwards.
	for _, family := range []string{"iptables", "ip6tables"} {
		err := os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-"+family, []byte("0"), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return setUp(name)
}

// plugIntoFabric adds a port with the machine's name to the fabric, at the other end of the machine's cable.
func (c *Cluster) plugIntoFabric(m Machine) error {
	return c.connect(m, uplink, fabric, m.Name, plugInto(bridge))
}

func plugInto(bridge string) func(netlink.Link) error {
	return func(port netlink.Link) error {
		master, err := netlink.LinkByName(bridge)
		if err != nil {
			return err
		}
		return netlink.LinkSetMaster(port, master)
	}
}

// plugIntoRouter gives the router a link to a host, with the host's name.
func (c *Cluster) plugIntoRouter(m Machine) error {
	return c.connect(m, uplink, Router().Name, m.Name, func(link netlink.Link) error { return addAddresses(link, m.gateways()) })
}

// connect creates a machine's cable: a link in its namespace, and in another namespace a port, which prepare
// configures before it comes up.
func (c *Cluster) connect(m Machine, link, to, port string, prepare func(netlink.Link) error) error {
	peer, err := ns.GetNS(c.netnsPath(m.Name))
	if err != nil {
		return err
	}
	defer peer.Close()
	return c.in(to, func() error {
		cable := &netlink.Veth{
			LinkAttrs:        netlink.LinkAttrs{Name: port, MTU: m.MTU},
			PeerName:         link,
			PeerHardwareAddr: m.MAC,
			PeerMTU:          uint32(m.MTU),
			PeerNamespace:    netlink.NsFd(int(peer.Fd())),
		}
		if err := netlink.LinkAdd(cable); err != nil {
			return fmt.Errorf("veth %s: %w", port, err)
		}
		return errors.Join(disableOffload(port), prepare(cable), setUp(port))
	})
}

// prepareHost runs in the namespace of a machine that is not a node.
func (m Machine) prepareHost() error {
	link, err := m.prepareEth0()
	if err != nil {
		return err
	}
	for _, gateway := range m.gateways() {
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Gw: gateway.Addr().AsSlice(), AdvMSS: segment(gateway.Addr())}
		if err := netlink.RouteAdd(route); err != nil {
			return fmt.Errorf("default route via %s: %w", gateway.Addr(), err)
		}
	}
	if m.Name != Outside().Name {
		return nil
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return addAddresses(lo, internetPrefixes())
}

// segment returns the size of TCP segments that a host announces. It is always computed from the fabric's MTU, even
// if the host's own link is narrow, so that senders of streams must discover the path MTU like senders of datagrams.
func segment(family netip.Addr) int {
	const tcp, header4, header6 = 20, 20, 40 // bytes of headers
	if family.Is4() {
		return fabricMTU - header4 - tcp
	}
	return fabricMTU - header6 - tcp
}

func (m Machine) prepareRouter() error {
	_, err := m.prepareEth0()
	return errors.Join(err, forward())
}

// prepareEth0 adds the machine's addresses to eth0.
func (m Machine) prepareEth0() (netlink.Link, error) {
	link, err := netlink.LinkByName(uplink)
	if err != nil {
		return nil, err
	}
	return link, errors.Join(addAddresses(link, m.prefixes()), setUp(uplink))
}

// forward makes a namespace a router.
func forward() error {
	for _, key := range []string{"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"} {
		if err := os.WriteFile("/proc/sys/"+key, []byte("1"), 0); err != nil {
			return err
		}
	}
	return nil
}

// prepareUplink runs in a node's namespace. A node's addresses belong on br-ex, which has eth0 as a port, so eth0
// must have no addresses, not even a link-local one. A plain node's addresses stay on eth0.
func (m Machine) prepareUplink() error {
	if err := forward(); err != nil {
		return err
	}
	if m.Plain {
		return setUp(uplink)
	}
	link, err := netlink.LinkByName(uplink)
	if err != nil {
		return err
	}
	const addrGenModeNone = 1 // IN6_ADDR_GEN_MODE_NONE of linux/if_link.h
	if err := netlink.LinkSetIP6AddrGenMode(link, addrGenModeNone); err != nil {
		return err
	}
	if !kernelDatapath() {
		if err := guard(uplink); err != nil {
			return err
		}
	}
	return setUp(uplink)
}

func internetPrefixes() []netip.Prefix {
	var all []netip.Prefix
	for _, a := range Internet() {
		all = append(all, netip.PrefixFrom(a, a.BitLen()))
	}
	return all
}

// addInternetRoutes routes the internet's addresses to the host outside.
func addInternetRoutes() error {
	link, err := netlink.LinkByName(Outside().Name)
	if err != nil {
		return err
	}
	for i, prefix := range internetPrefixes() {
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(prefix), Gw: Outside().prefixes()[i].Addr().AsSlice()}
		if err := netlink.RouteAdd(route); err != nil {
			return fmt.Errorf("route to %s: %w", prefix, err)
		}
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func addAddresses(link netlink.Link, prefixes []netip.Prefix) error {
	for _, prefix := range prefixes {
		address := &netlink.Addr{IPNet: ipNet(prefix)}
		if prefix.Addr().Is6() {
			address.Flags = unix.IFA_F_NODAD // usable immediately
		}
		if err := netlink.AddrReplace(link, address); err != nil {
			return fmt.Errorf("address %s on %s: %w", prefix, link.Attrs().Name, err)
		}
	}
	return nil
}

func setUp(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	return netlink.LinkSetUp(link)
}

// disableOffload switches checksum offload off. Otherwise the userspace datapath would forward frames whose checksum
// the kernel left to a card that does not exist, and every TCP and UDP receiver would drop them.
func disableOffload(name string) error {
	tool, err := ethtool.NewEthtool()
	if err != nil {
		return err
	}
	defer tool.Close()
	return tool.Change(name, map[string]bool{
		"tx-checksum-ip-generic": false, "tx-generic-segmentation": false, "tx-tcp-segmentation": false, "rx-gro": false,
	})
}

// guard keeps the kernel's own stack from processing frames that belong to Open vSwitch: the userspace datapath
// reads them through AF_PACKET, which only copies.
func guard(device string) error {
	rules := fmt.Sprintf("add table netdev weft-lab\n"+
		"add chain netdev weft-lab guard { type filter hook ingress device %q priority -500; policy drop; }\n", device)
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nft guard on %s: %w: %s", device, err, out)
	}
	return nil
}

// kernelDatapath reports whether this kernel has Open vSwitch's own datapath.
func kernelDatapath() bool {
	_, err := netlink.GenlFamilyGet("ovs_datapath")
	return err == nil
}
