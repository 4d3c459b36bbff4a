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

// ErrRefused means that the link cannot be moved. Nothing was changed.
var ErrRefused = errors.New("the link is not moved")

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrRefused}, args...)...)
}

// movable lists the kinds of links that may become a port: all kinds that lead out of the host.
var movable = []string{"device", "veth", "bond", "team", "vlan"}

// stacked lists the kinds of links that use another link.
var stacked = []string{"vlan", "macvlan", "macvtap", "ipvlan", "ipvtap"}

// checkMovable returns an ErrRefused with the reason if a link must not be moved.
func (m *Mover) checkMovable(s Snapshot, req Request) error {
	found, err := netlink.LinkByName(s.Link)
	if err != nil {
		return fmt.Errorf("link %s: %w", s.Link, err)
	}
	attrs := found.Attrs()
	switch {
	case !slices.Contains(movable, found.Type()) || attrs.Flags&net.FlagLoopback != 0:
		return refuse("%s is a link of type %s; only %s are moved", s.Link, found.Type(), strings.Join(movable, ", "))
	case attrs.MasterIndex != 0:
		return refuse("%s is a member of another link (a bond, team or bridge); name that link instead", s.Link)
	}
	if err := checkNothingOnTop(attrs); err != nil {
		return err
	}
	if req.Uplink == networkv1alpha1.UplinkInterface {
		return checkNotNeeded(s, attrs.Index, req)
	}
	if len(s.Addresses) == 0 && !req.Physical {
		return refuse("%s has no address", s.Link)
	}
	for _, address := range s.Addresses {
		if _, limited := address.lifetime(); limited && address.prefix().Addr().Is4() {
			return refuse("address %s of %s has a lifetime: a DHCP client renews it, and would continue to use %s. "+
				"Create the bridge with the host's own network configuration, or give the host a fixed address",
				address.Text, s.Link, s.Link)
		}
	}
	return m.checkUnmanaged(s.Link, attrs.Index)
}

// checkNothingOnTop refuses a link that others are stacked on, because they would receive no frames after the move.
func checkNothingOnTop(attrs *netlink.LinkAttrs) error {
	links, err := netlink.LinkList()
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return fmt.Errorf("list links: %w", err)
	}
	for _, other := range links {
		if other.Attrs().ParentIndex == attrs.Index && slices.Contains(stacked, other.Type()) {
			return refuse("%s %s is stacked on %s and would receive no frames after the move",
				other.Type(), other.Attrs().Name, attrs.Name)
		}
	}
	return nil
}

// checkNotNeeded refuses a link that the host itself needs, because uplink Interface leaves the host no address there.
func checkNotNeeded(s Snapshot, index int, req Request) error {
	for _, address := range s.Addresses {
		if slices.Contains(req.NodeAddresses, address.prefix().Addr()) {
			return refuse("uplink Interface takes the addresses of %s from the host, and %s is the Node's address",
				s.Link, address.Text)
		}
	}
	for _, route := range s.Routes {
		if route.isDefault() {
			return refuse("uplink Interface takes the addresses of %s from the host, whose default route uses that link",
				s.Link)
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
			return refuse("uplink Interface takes the addresses of %s from the host, which reaches the API server %s over it",
				s.Link, req.APIServer)
		}
	}
	return nil
}

// checkUnmanaged refuses a link that a service of the host manages, because the service would configure it again.
func (m *Mover) checkUnmanaged(name string, index int) error {
	if m.cfg.HostRun == "" {
		return nil
	}
	for _, manager := range []struct{ name, path, mark string }{
		{"systemd-networkd", fmt.Sprintf("systemd/netif/links/%d", index), "NETWORK_FILE="},
		{"NetworkManager", fmt.Sprintf("NetworkManager/devices/%d", index), "connection-uuid="},
	} {
		text, err := os.ReadFile(filepath.Join(m.cfg.HostRun, manager.path))
		if err == nil && strings.Contains(string(text), manager.mark) {
			return refuse("%s manages %s and would give it its addresses again. Create the bridge with %s, or make it ignore %s",
				manager.name, name, manager.name, name)
		}
	}
	return nil
}

// defaultLink returns the link of the preferred default route, IPv4 before IPv6.
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

// prefixes returns the addresses that are not link-local.
func prefixes(l Layer3) []netip.Prefix {
	var found []netip.Prefix
	for _, m := range l.Addresses {
		if p := m.prefix(); !p.Addr().IsLinkLocalUnicast() {
			found = append(found, p)
		}
	}
	return found
}
