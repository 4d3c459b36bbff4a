package uplink

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// ErrRefused says that a link is not moved, and nothing was changed.
var ErrRefused = errors.New("the link is not moved")

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrRefused}, args...)...)
}

// movable are the kinds of links that may become a port: those with a cable at their end.
var movable = []string{"device", "veth", "bond", "team", "vlan"}

// stacked are the kinds of links that lie on another.
var stacked = []string{"vlan", "macvlan", "macvtap", "ipvlan", "ipvtap"}

// unsuited says why a link is not to be moved.
func (m *Mover) unsuited(s Snapshot, req Request) error {
	found, err := netlink.LinkByName(s.Link)
	if err != nil {
		return fmt.Errorf("link %s: %w", s.Link, err)
	}
	attrs := found.Attrs()
	switch {
	case !slices.Contains(movable, found.Type()) || attrs.Flags&net.FlagLoopback != 0:
		return refuse("%s is a link of type %s; only %s are moved", s.Link, found.Type(), strings.Join(movable, ", "))
	case attrs.MasterIndex != 0:
		return refuse("%s belongs to another link (a bond, team or bridge): name that one", s.Link)
	}
	if err := nothingOnTop(attrs); err != nil {
		return err
	}
	if req.Uplink == networkv1alpha1.UplinkInterface {
		return needed(s, attrs.Index, req)
	}
	if len(s.Addresses) == 0 {
		return refuse("%s has no address", s.Link)
	}
	for _, address := range s.Addresses {
		if _, limited := address.lifetime(); limited && address.prefix().Addr().Is4() {
			return refuse("address %s of %s has a lifetime: a DHCP client keeps it, and would go on with %s. Make the bridge with what configures the host, or give the host a fixed address",
				address.Text, s.Link, s.Link)
		}
	}
	return m.managed(s.Link, attrs.Index)
}

// nothingOnTop: what lies on a link gets no frames any more once that is a port.
func nothingOnTop(attrs *netlink.LinkAttrs) error {
	links, err := netlink.LinkList()
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return fmt.Errorf("list links: %w", err)
	}
	for _, other := range links {
		if other.Attrs().ParentIndex == attrs.Index && slices.Contains(stacked, other.Type()) {
			return refuse("%s %s lies on %s, and would get no frames any more", other.Type(), other.Attrs().Name, attrs.Name)
		}
	}
	return nil
}

// needed says why the host cannot give up the link: uplink Interface leaves it no address there.
func needed(s Snapshot, index int, req Request) error {
	for _, address := range s.Addresses {
		if slices.Contains(req.NodeAddresses, address.prefix().Addr()) {
			return refuse("uplink Interface takes the addresses of %s from the host, and %s is the Node's", s.Link, address.Text)
		}
	}
	for _, route := range s.Routes {
		if route.isDefault() {
			return refuse("uplink Interface takes the addresses of %s from the host, whose default route is there", s.Link)
		}
	}
	if !req.APIServer.IsValid() {
		return nil
	}
	routes, err := netlink.RouteGet(req.APIServer.Addr().AsSlice())
	if err != nil {
		return fmt.Errorf("route to the API server %s: %w", req.APIServer, err)
	}
	for _, route := range routes {
		if route.LinkIndex == index {
			return refuse("uplink Interface takes the addresses of %s from the host, which reaches the API server %s over it", s.Link, req.APIServer)
		}
	}
	return nil
}

// managed finds services of the host that own the link and would configure it again behind our back.
func (m *Mover) managed(name string, index int) error {
	if m.cfg.HostRun == "" {
		return nil
	}
	for _, manager := range []struct{ name, path, mark string }{
		{"systemd-networkd", fmt.Sprintf("systemd/netif/links/%d", index), "NETWORK_FILE="},
		{"NetworkManager", fmt.Sprintf("NetworkManager/devices/%d", index), "connection-uuid="},
	} {
		text, err := os.ReadFile(filepath.Join(m.cfg.HostRun, manager.path))
		if err == nil && strings.Contains(string(text), manager.mark) {
			return refuse("%s manages %s and would give it its addresses again. Make the bridge with it, or have it leave %s alone", manager.name, name, name)
		}
	}
	return nil
}

// defaultLink is the link of the best default route, IPv4 before IPv6.
func defaultLink() (string, error) {
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := netlink.RouteList(nil, family)
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
			return "", fmt.Errorf("list routes: %w", err)
		}
		routes = slices.DeleteFunc(routes, func(r netlink.Route) bool {
			ones := 0
			if r.Dst != nil {
				ones, _ = r.Dst.Mask.Size()
			}
			return ones != 0 || r.LinkIndex == 0
		})
		if len(routes) == 0 {
			continue
		}
		best := slices.MinFunc(routes, func(a, b netlink.Route) int { return a.Priority - b.Priority })
		found, err := netlink.LinkByIndex(best.LinkIndex)
		if err != nil {
			return "", fmt.Errorf("link of the default route: %w", err)
		}
		return found.Attrs().Name, nil
	}
	return "", refuse("this host has no default route; name the link in spec.gateway.interface")
}

// prefixes are the addresses that others can use.
func prefixes(l Layer3) []netip.Prefix {
	var found []netip.Prefix
	for _, m := range l.Addresses {
		if p := m.prefix(); !p.Addr().IsLinkLocalUnicast() {
			found = append(found, p)
		}
	}
	return found
}
