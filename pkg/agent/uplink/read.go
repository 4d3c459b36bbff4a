package uplink

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// sysctls are the settings that a host may have for its link, and that the bridge's link needs as well.
var sysctls = []string{
	"ipv4/rp_filter", "ipv4/forwarding", "ipv4/accept_redirects", "ipv4/send_redirects", "ipv4/secure_redirects",
	"ipv4/accept_source_route",
	"ipv4/arp_ignore", "ipv4/arp_announce", "ipv4/arp_filter", "ipv4/arp_notify", "ipv4/accept_local", "ipv4/route_localnet",
	"ipv4/src_valid_mark", "ipv4/proxy_arp", "ipv4/promote_secondaries", "ipv4/log_martians",
	disableIPv6, "ipv6/forwarding", "ipv6/accept_ra", "ipv6/accept_ra_defrtr", "ipv6/accept_ra_pinfo",
	"ipv6/accept_ra_rt_info_max_plen",
	"ipv6/autoconf", "ipv6/use_tempaddr", "ipv6/accept_redirects", "ipv6/accept_dad", "ipv6/dad_transmits",
	"ipv6/router_solicitations",
}

// offloads are the features with which a packet socket receives frames that differ from those on the wire: frames
// without a checksum, or several frames in one.
var offloads = []string{"tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6", "tx-generic-segmentation", "tx-tcp-segmentation",
	"tx-tcp6-segmentation", "rx-gro", "rx-lro", "rx-gro-hw"}

// takeSnapshot reads a link's snapshot.
func takeSnapshot(name string, features bool) (Snapshot, error) {
	found, err := netlink.LinkByName(name)
	if err != nil {
		return Snapshot{}, fmt.Errorf("link %s: %w", name, err)
	}
	on := link{found.Attrs().Index, name}
	s := Snapshot{Link: name, MAC: found.Attrs().HardwareAddr.String(), MTU: found.Attrs().MTU,
		Down: found.Attrs().Flags&net.FlagUp == 0, Promiscuous: found.Attrs().RawFlags&unix.IFF_PROMISC != 0}
	if s.Layer3, err = readLayer3(on); err == nil {
		_, err = readRoutes(on, newRoute) // refuses routes that cannot move; later reads skip them
	}
	if err == nil {
		s.Rules, err = readRules(on)
	}
	if err == nil {
		s.Sysctls, err = readSysctls(name)
	}
	if err == nil && s.Sysctls[disableIPv6] != "" {
		s.AddrGenMode, err = readAddrGenMode(on)
	}
	if err == nil && features {
		s.Features, err = readFeatures(name)
	}
	if err != nil {
		return Snapshot{}, fmt.Errorf("snapshot of %s: %w", name, err)
	}
	return s, nil
}

func readLayer3(on link) (l Layer3, err error) {
	l.Addresses, err = dump(unix.RTM_GETADDR, unix.RTM_NEWADDR, addressHeader, on, newAddress)
	if err == nil {
		l.Routes, err = readRoutes(on, newMovableRoute)
	}
	if err == nil {
		l.Neighbors, err = dump(unix.RTM_GETNEIGH, unix.RTM_NEWNEIGH, neighborHeader, on, newNeighbor)
	}
	return l, err
}

func readRoutes(on link, read reader) ([]Message, error) {
	return dump(unix.RTM_GETROUTE, unix.RTM_NEWROUTE, routeHeader, on, read)
}

// newMovableRoute skips routes that newRoute refuses.
func newMovableRoute(body []byte, on link) (Message, bool, error) {
	m, ok, err := newRoute(body, on)
	if errors.Is(err, errNexthopObject) {
		return m, false, nil
	}
	return m, ok, err
}

func readRules(on link) ([]Message, error) {
	return dump(unix.RTM_GETRULE, unix.RTM_NEWRULE, ruleHeader, on, newRule)
}

// reader decodes the body of a netlink message. ok is false if the object does not belong to the link.
type reader func(body []byte, on link) (m Message, ok bool, err error)

// dump lists objects of a link. It repeats a list that the kernel marked as possibly incomplete because something changed
// meanwhile.
func dump(requestType, replyType, header int, on link, read reader) (found []Message, err error) {
	const attempts = 10
	for range attempts {
		request := nl.NewNetlinkRequest(requestType, unix.NLM_F_DUMP)
		request.AddData(zeros(header)) // family 0: all
		var bodies [][]byte
		bodies, err = request.Execute(unix.NETLINK_ROUTE, uint16(replyType))
		if errors.Is(err, netlink.ErrDumpInterrupted) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list by netlink message %d: %w", requestType, err)
		}
		found = nil
		for _, body := range bodies {
			m, ok, err := read(body, on)
			if err != nil {
				return nil, err
			}
			if ok {
				found = append(found, m)
			}
		}
		return found, nil
	}
	return nil, err
}

// zeros is a request header of that many zero bytes.
type zeros int

// Len implements nl.NetlinkRequestData.
func (z zeros) Len() int { return int(z) }

// Serialize implements nl.NetlinkRequestData.
func (z zeros) Serialize() []byte { return make([]byte, z) }

// bytesOf is a message's body in a request.
type bytesOf []byte

// Len implements nl.NetlinkRequestData.
func (b bytesOf) Len() int { return len(b) }

// Serialize implements nl.NetlinkRequestData.
func (b bytesOf) Serialize() []byte { return b }

// send sends the kernel a change. It ignores the errors in fine, which mean that the state is already as wanted.
func send(kind, flags int, body []byte, fine ...error) error {
	request := nl.NewNetlinkRequest(kind, flags|unix.NLM_F_ACK)
	request.AddData(bytesOf(body))
	_, err := request.Execute(unix.NETLINK_ROUTE, 0)
	for _, f := range fine {
		if errors.Is(err, f) {
			return nil
		}
	}
	return err
}

// readAddrGenMode reads the IPv6 part of the link's attributes, which the netlink library does not decode.
func readAddrGenMode(on link) (int, error) {
	request := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_ACK)
	message := nl.NewIfInfomsg(unix.AF_UNSPEC)
	message.Index = int32(on.index)
	request.AddData(message)
	bodies, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
	if err != nil || len(bodies) == 0 {
		return 0, fmt.Errorf("link %s: %w", on.name, err)
	}
	attributes, err := decode(bodies[0][unix.SizeofIfInfomsg:])
	if err != nil {
		return 0, err
	}
	families, err := decode(find(attributes, unix.IFLA_AF_SPEC))
	if err != nil {
		return 0, err
	}
	ipv6, err := decode(find(families, unix.AF_INET6))
	if err != nil {
		return 0, err
	}
	if mode := find(ipv6, unix.IFLA_INET6_ADDR_GEN_MODE); len(mode) == 1 {
		return int(mode[0]), nil
	}
	return 0, nil
}

func sysctlPath(link, key string) string {
	family, name, _ := strings.Cut(key, "/")
	return filepath.Join("/proc/sys/net", family, "conf", link, name)
}

// readSysctls omits settings that this kernel does not have.
func readSysctls(link string) (map[string]string, error) {
	values := map[string]string{}
	for _, key := range sysctls {
		value, err := os.ReadFile(sysctlPath(link, key))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		values[key] = strings.TrimSpace(string(value))
	}
	return values, nil
}

// readFeatures omits features that the link does not have.
func readFeatures(link string) (map[string]bool, error) {
	tool, err := ethtool.NewEthtool()
	if err != nil {
		return nil, fmt.Errorf("ethtool: %w", err)
	}
	defer tool.Close()
	all, err := tool.Features(link)
	if err != nil {
		return nil, fmt.Errorf("ethtool features of %s: %w", link, err)
	}
	found := map[string]bool{}
	for _, name := range offloads {
		if on, ok := all[name]; ok {
			found[name] = on
		}
	}
	return found, nil
}
