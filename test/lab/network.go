package lab

import (
	"errors"
	"fmt"
	"io/fs"
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
	fabric = "fab" // the network namespace that stands for the physical network
	bridge = "br0"
	uplink = "eth0"
)

// makeNetwork makes all network namespaces and the links between them. Nothing is added to this machine's own.
func (c *Cluster) makeNetwork(s *state.State, all []Machine) error {
	if err := c.makeNetns(s, fabric); err != nil {
		return err
	}
	if err := c.in(fabric, makeBridge); err != nil {
		return err
	}
	for _, m := range all {
		if err := c.makeNetns(s, m.Name); err != nil {
			return err
		}
		if err := c.connect(m); err != nil {
			return fmt.Errorf("network of %s: %w", m.Name, err)
		}
		if err := c.in(m.Name, m.prepareUplink); err != nil {
			return fmt.Errorf("network of %s: %w", m.Name, err)
		}
	}
	return nil
}

func (c *Cluster) makeNetns(s *state.State, machine string) error {
	name := c.netns(machine)
	if err := s.AddNetns(name); err != nil {
		return err
	}
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread is in the new namespace now and ends with this goroutine
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

func deleteNetns(name string) error {
	path := filepath.Join("/run/netns", name)
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// in runs something on a thread that is in a machine's network namespace.
func (c *Cluster) in(machine string, do func() error) error {
	return ns.WithNetNSPath(c.netnsPath(machine), func(ns.NetNS) error { return do() })
}

func makeBridge() error {
	off := false
	link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridge, MTU: fabricMTU}, MulticastSnooping: &off}
	if err := netlink.LinkAdd(link); err != nil {
		return fmt.Errorf("bridge %s: %w", bridge, err)
	}
	// Else netfilter of this namespace would see, and could drop, what the bridge only forwards.
	for _, family := range []string{"iptables", "ip6tables"} {
		err := os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-"+family, []byte("0"), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return setUp(bridge)
}

// connect makes a machine's cable: eth0 in its namespace, a port named as the machine on the fabric.
func (c *Cluster) connect(m Machine) error {
	peer, err := ns.GetNS(c.netnsPath(m.Name))
	if err != nil {
		return err
	}
	defer peer.Close()
	return c.in(fabric, func() error {
		master, err := netlink.LinkByName(bridge)
		if err != nil {
			return err
		}
		cable := &netlink.Veth{
			LinkAttrs:        netlink.LinkAttrs{Name: m.Name, MTU: fabricMTU, MasterIndex: master.Attrs().Index},
			PeerName:         uplink,
			PeerHardwareAddr: m.MAC,
			PeerMTU:          fabricMTU,
			PeerNamespace:    netlink.NsFd(int(peer.Fd())),
		}
		if err := netlink.LinkAdd(cable); err != nil {
			return fmt.Errorf("veth %s: %w", m.Name, err)
		}
		return errors.Join(setUp(m.Name), disableOffload(m.Name))
	})
}

// prepareUplink runs in the machine's namespace. The control plane has its addresses on eth0; a node's belong on br-ex,
// which owns eth0 as a port, so there eth0 must have none, not even a link-local one.
func (m Machine) prepareUplink() error {
	for _, key := range []string{"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"} {
		if err := os.WriteFile("/proc/sys/"+key, []byte("1"), 0); err != nil {
			return err
		}
	}
	if err := disableOffload(uplink); err != nil {
		return err
	}
	if m.Name == ControlPlane().Name {
		return errors.Join(setUp(uplink), m.addAddresses(), addInternet())
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

func (m Machine) addAddresses() error {
	link, err := netlink.LinkByName(uplink)
	if err != nil {
		return err
	}
	return errors.Join(addAddress(link, m.IPv4.String()), addAddress(link, m.IPv6.String()))
}

// addInternet gives the control plane addresses that no node has a route for but the default one: TEST-NET-1 and the
// documentation prefix, to test what pods see of the world outside.
func addInternet() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return errors.Join(addAddress(lo, "192.0.2.1/32"), addAddress(lo, "2001:db8::1/128"))
}

func addAddress(link netlink.Link, prefix string) error {
	address, err := netlink.ParseAddr(prefix)
	if err != nil {
		return err
	}
	if address.IP.To4() == nil {
		address.Flags = unix.IFA_F_NODAD // usable at once
	}
	if err := netlink.AddrReplace(link, address); err != nil {
		return fmt.Errorf("address %s on %s: %w", prefix, link.Attrs().Name, err)
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

// disableOffload: the userspace datapath would forward frames whose checksum the kernel left to a card that does not
// exist, and every TCP and UDP receiver would drop them.
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

// guard keeps the kernel's own stack away from frames that belong to Open vSwitch: its userspace datapath reads them by
// AF_PACKET, which only copies.
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

// kernelDatapath tells whether this kernel has Open vSwitch's own datapath.
func kernelDatapath() bool {
	_, err := netlink.GenlFamilyGet("ovs_datapath")
	return err == nil
}
