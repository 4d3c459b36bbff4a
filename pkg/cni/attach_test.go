package cni

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weft-network/weft/pkg/cni/cniwire"
)

const container = "0123456789abcdef"

// web returns an interface that a pod wants.
func web(netNS string) PodInterface {
	return PodInterface{
		ContainerID: container,
		NetNS:       netNS,
		IfName:      "eth0",
		MAC:         net.HardwareAddr{0x0a, 0x58, 0x0a, 0xf4, 0x00, 0x05},
		Addresses:   []netip.Prefix{netip.MustParsePrefix("10.244.0.5/24")},
		Gateways:    []netip.Addr{netip.MustParseAddr("10.244.0.1")},
		MTU:         1400,
	}
}

func dualStack(netNS string) PodInterface {
	want := web(netNS)
	want.Addresses = append(want.Addresses, netip.MustParsePrefix("fd00:10:244::5/64"))
	want.Gateways = append(want.Gateways, netip.MustParseAddr("fd00:10:244::1"))
	want.Routes = []Route{
		{Dst: netip.MustParsePrefix("10.96.0.0/16"), Gateway: netip.MustParseAddr("10.244.0.1")},
		{Dst: netip.MustParsePrefix("fd00:10:96::/112"), Gateway: netip.MustParseAddr("fd00:10:244::1")},
		{Dst: netip.MustParsePrefix("169.254.100.0/24")},
	}
	return want
}

// podState is the state of a pod's interface in the kernel.
type podState struct {
	MAC       string
	MTU       int
	Up        bool
	Addresses []string // with flags that must not be set
	Routes    []string
	AcceptRA  string
}

func stateOf(t *testing.T, netNS, ifName string) podState {
	t.Helper()
	var state podState
	inPod(t, netNS, func(pod *netlink.Handle) error {
		link, err := pod.LinkByName(ifName)
		if err != nil {
			return err
		}
		attrs := link.Attrs()
		state.MAC, state.MTU, state.Up = attrs.HardwareAddr.String(), attrs.MTU, attrs.Flags&net.FlagUp != 0
		if state.Addresses, err = addressesOf(pod, link); err != nil {
			return err
		}
		if state.Routes, err = routesOf(pod, link); err != nil {
			return err
		}
		accept, err := os.ReadFile("/proc/sys/net/ipv6/conf/" + ifName + "/accept_ra")
		state.AcceptRA = strings.TrimSpace(string(accept))
		return err
	})
	return state
}

func addressesOf(pod *netlink.Handle, link netlink.Link) ([]string, error) {
	entries, err := pod.AddrList(link, netlink.FAMILY_ALL)
	var addresses []string
	for _, entry := range entries {
		address := entry.IPNet.String()
		if entry.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) != 0 {
			address += " tentative"
		}
		addresses = append(addresses, address)
	}
	slices.Sort(addresses)
	return addresses, err
}

func routesOf(pod *netlink.Handle, link netlink.Link) ([]string, error) {
	entries, err := pod.RouteList(link, netlink.FAMILY_ALL)
	var routes []string
	for _, entry := range entries {
		route := entry.Dst.String()
		if entry.Gw != nil {
			route += " via " + entry.Gw.String()
		}
		if entry.Flags&int(netlink.FLAG_ONLINK) != 0 {
			route += " onlink"
		}
		routes = append(routes, route)
	}
	slices.Sort(routes)
	return routes, err
}

func mustAttach(t testing.TB, want PodInterface) Attachment {
	t.Helper()
	made, err := Attach(want)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Detach(want.ContainerID, want.IfName); err != nil {
			t.Error(err)
		}
	})
	return made
}

func TestAttachGivesThePodWhatItWants(t *testing.T) {
	needRoot(t)
	onlyIPv6 := web("")
	onlyIPv6.Addresses = []netip.Prefix{netip.MustParsePrefix("fd00:10:244::5/64")}
	onlyIPv6.Gateways = []netip.Addr{netip.MustParseAddr("fe80::1")}
	hostPrefixes := web("")
	hostPrefixes.Addresses = []netip.Prefix{netip.MustParsePrefix("10.244.0.5/32"), netip.MustParsePrefix("fd00:10:244::5/128")}
	hostPrefixes.Gateways = []netip.Addr{netip.MustParseAddr("169.254.1.1"), netip.MustParseAddr("fd00:1::1")}
	base := podState{MAC: "0a:58:0a:f4:00:05", MTU: 1400, Up: true, AcceptRA: "0"}

	for _, test := range []struct {
		name              string
		want              PodInterface
		addresses, routes []string
	}{{
		name:      "IPv4 only, without any trace of IPv6",
		want:      web(""),
		addresses: []string{"10.244.0.5/24"},
		routes:    []string{"0.0.0.0/0 via 10.244.0.1", "10.244.0.0/24"},
	}, {
		name:      "both families and further routes",
		want:      dualStack(""),
		addresses: []string{"10.244.0.5/24", "fd00:10:244::5/64", "fe80::858:aff:fef4:5/64"},
		routes: []string{"0.0.0.0/0 via 10.244.0.1", "10.244.0.0/24", "10.96.0.0/16 via 10.244.0.1", "169.254.100.0/24",
			"::/0 via fd00:10:244::1", "fd00:10:244::/64", "fd00:10:96::/112 via fd00:10:244::1", "fe80::/64"},
	}, {
		name:      "IPv6 only, through a link-local gateway",
		want:      onlyIPv6,
		addresses: []string{"fd00:10:244::5/64", "fe80::858:aff:fef4:5/64"},
		routes:    []string{"::/0 via fe80::1", "fd00:10:244::/64", "fe80::/64"},
	}, {
		name:      "gateways outside of the subnets",
		want:      hostPrefixes,
		addresses: []string{"10.244.0.5/32", "fd00:10:244::5/128", "fe80::858:aff:fef4:5/64"},
		routes: []string{"0.0.0.0/0 via 169.254.1.1 onlink", "::/0 via fd00:1::1 onlink",
			"fd00:10:244::5/128", "fe80::/64"},
	}} {
		t.Run(test.name, func(t *testing.T) {
			test.want.NetNS = podNS(t)
			mustAttach(t, test.want)
			expected := base
			expected.Addresses, expected.Routes = test.addresses, test.routes
			if diff := cmp.Diff(expected, stateOf(t, test.want.NetNS, "eth0")); diff != "" {
				t.Errorf("the pod has (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAttachCreatesTheHostsEnd(t *testing.T) {
	want := dualStack(podNS(t))
	made := mustAttach(t, want)

	link, err := netlink.LinkByName(made.HostName)
	if err != nil {
		t.Fatal(err)
	}
	attrs := link.Attrs()
	if attrs.Alias != "weft:0123456789abcdef/eth0" {
		t.Errorf("alias %q", attrs.Alias)
	}
	if attrs.Flags&net.FlagUp == 0 || attrs.MTU != 1400 {
		t.Errorf("flags %v, MTU %d", attrs.Flags, attrs.MTU)
	}
	addresses, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil || len(addresses) != 0 {
		t.Errorf("the host's end has addresses %v, error %v", addresses, err)
	}
	inPod(t, want.NetNS, func(pod *netlink.Handle) error {
		podLink, err := pod.LinkByName("eth0")
		if err != nil {
			return err
		}
		expected := Attachment{HostName: HostName(container, "eth0"), HostIndex: attrs.Index, HostMAC: attrs.HardwareAddr,
			PodIndex: podLink.Attrs().Index, MAC: want.MAC}
		if diff := cmp.Diff(expected, made); diff != "" {
			t.Errorf("Attach returned (-want +got):\n%s", diff)
		}
		return nil
	})
}

func TestAttachAgainReplaces(t *testing.T) {
	want := web(podNS(t))
	first := mustAttach(t, want)
	want.MTU = 1300
	second := mustAttach(t, want)

	if first.HostName != second.HostName || first.HostIndex == second.HostIndex {
		t.Errorf("first %+v, second %+v: want the same name and a new link", first, second)
	}
	if got := stateOf(t, want.NetNS, "eth0").MTU; got != 1300 {
		t.Errorf("MTU after the second Attach: %d", got)
	}
	assertHostLinks(t, second.HostName)
}

func TestAttachReplacesAnUnfinishedLink(t *testing.T) {
	want := web(podNS(t))
	attrs := netlink.NewLinkAttrs()
	attrs.Name = HostName(want.ContainerID, want.IfName)
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "unfinished"}); err != nil {
		t.Fatal(err)
	}
	links, err := List()
	if err != nil || len(links) != 1 || links[0].ContainerID != "" {
		t.Errorf("List with an unfinished link: %+v, %v", links, err)
	}
	made := mustAttach(t, want)
	assertHostLinks(t, made.HostName)
	if _, err := netlink.LinkByName("unfinished"); !isNotFound(err) {
		t.Errorf("the unfinished link still exists: %v", err)
	}
}

func TestAttachFollowsANewNamespace(t *testing.T) {
	mustAttach(t, web(podNS(t)))
	want := web(podNS(t))
	mustAttach(t, want)
	if !stateOf(t, want.NetNS, "eth0").Up {
		t.Error("eth0 is not up in the second namespace")
	}
}

func TestAttachLeavesAForeignLink(t *testing.T) {
	want := web(podNS(t))
	attrs := netlink.NewLinkAttrs()
	attrs.Name = HostName(want.ContainerID, want.IfName)
	foreign := &netlink.Bridge{LinkAttrs: attrs}
	if err := netlink.LinkAdd(foreign); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netlink.LinkDel(foreign) })
	if _, err := Attach(want); err == nil || !strings.Contains(err.Error(), "is not Weft's") {
		t.Errorf("Attach over a foreign link: %v", err)
	}
	if err := Detach(want.ContainerID, want.IfName); err == nil || !strings.Contains(err.Error(), "is not Weft's") {
		t.Errorf("Detach of a foreign link: %v", err)
	}
	if _, err := netlink.LinkByName(attrs.Name); err != nil {
		t.Errorf("the foreign link: %v", err)
	}
}

func TestFailedAttachLeavesNothing(t *testing.T) {
	needRoot(t)
	for name, spoil := range map[string]func(*testing.T, *PodInterface){
		"the pod has an interface of that name": func(t *testing.T, want *PodInterface) {
			inPod(t, want.NetNS, func(pod *netlink.Handle) error {
				attrs := netlink.NewLinkAttrs()
				attrs.Name = "eth0"
				return pod.LinkAdd(&netlink.Bridge{LinkAttrs: attrs})
			})
		},
		"a route twice": func(_ *testing.T, want *PodInterface) {
			want.Routes = []Route{{Dst: netip.MustParsePrefix("0.0.0.0/0"), Gateway: want.Gateways[0]}}
		},
		"an address twice": func(_ *testing.T, want *PodInterface) {
			want.Addresses = append(want.Addresses, want.Addresses[0])
		},
		"MTU too small for IPv6": func(_ *testing.T, want *PodInterface) {
			*want = dualStack(want.NetNS)
			want.MTU = 1200
		},
		"no MAC": func(_ *testing.T, want *PodInterface) { want.MAC = nil },
	} {
		t.Run(name, func(t *testing.T) {
			want := web(podNS(t))
			want.IngressGuard = true
			spoil(t, &want)
			_, err := Attach(want)
			if err == nil || !strings.Contains(err.Error(), "interface eth0 of container "+container) {
				t.Errorf("Attach: %v", err)
			}
			assertHostLinks(t)
			assertGuards(t)
		})
	}
}

func TestAttachRefusesOtherNamespaces(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(podNS(t), link); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ path, text string }{
		"nothing":                  {filepath.Join(dir, "absent"), "no such file"},
		"nothing under /var/run":   {"/var/run/netns/weft-absent", "no such file"},
		"a file":                   {file, "is not a namespace"},
		"a pipe":                   {fifo, "is not a namespace"},
		"a symbolic link":          {link, "symbolic link"},
		"a mount namespace":        {"/proc/self/ns/mnt", "of another kind"},
		"the host's own namespace": {"/proc/thread-self/ns/net", "host's own"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Attach(web(test.path))
			var coded *cniwire.Error
			if !errors.As(err, &coded) || coded.Code != cniwire.CodeInvalidNetNS || !strings.Contains(err.Error(), test.text) {
				t.Errorf("Attach in %s: %v", test.path, err)
			}
			assertHostLinks(t)
		})
	}
}

func TestIPv6SwitchedOffInThePod(t *testing.T) {
	netNS := podNS(t)
	inPod(t, netNS, func(*netlink.Handle) error {
		return errors.Join(
			os.WriteFile("/proc/sys/net/ipv6/conf/all/disable_ipv6", []byte("1"), 0),
			os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0))
	})
	t.Run("does not disturb IPv4", func(t *testing.T) {
		mustAttach(t, web(netNS))
		if got := stateOf(t, netNS, "eth0").Addresses; !slices.Equal(got, []string{"10.244.0.5/24"}) {
			t.Errorf("addresses: %v", got)
		}
	})
	t.Run("is switched on for an IPv6 address", func(t *testing.T) {
		mustAttach(t, dualStack(netNS))
		if got := stateOf(t, netNS, "eth0").Addresses; !slices.Contains(got, "fd00:10:244::5/64") {
			t.Errorf("addresses: %v", got)
		}
	})
}

// With an MTU below 1280 a link has no IPv6 at all, as with a kernel without IPv6.
func TestAttachOnALinkWithoutIPv6(t *testing.T) {
	want := web(podNS(t))
	want.MTU = 1000
	mustAttach(t, want)
	inPod(t, want.NetNS, func(pod *netlink.Handle) error {
		if _, err := os.Stat("/proc/sys/net/ipv6/conf/eth0"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the link has IPv6, so this test proves nothing: %v", err)
		}
		link, err := pod.LinkByName("eth0")
		if err != nil {
			return err
		}
		addresses, err := addressesOf(pod, link)
		if !slices.Equal(addresses, []string{"10.244.0.5/24"}) {
			t.Errorf("addresses: %v", addresses)
		}
		return err
	})
}

func TestTxOffload(t *testing.T) {
	needRoot(t)
	for name, disable := range map[string]bool{"stays": false, "is disabled": true} {
		t.Run(name, func(t *testing.T) {
			want := web(podNS(t))
			want.DisableTxOffload = disable
			mustAttach(t, want)
			inPod(t, want.NetNS, func(*netlink.Handle) error {
				device, err := ethtool.NewEthtool()
				if err != nil {
					return err
				}
				defer device.Close()
				features, err := device.Features("eth0")
				for _, feature := range []string{"tx-checksum-ip-generic", "tx-checksum-sctp", "tx-tcp-segmentation"} {
					if features[feature] == disable {
						t.Errorf("%s is %v", feature, features[feature])
					}
				}
				return err
			})
		})
	}
}

// assertHostLinks compares names with everything that List finds.
func assertHostLinks(t *testing.T, names ...string) {
	t.Helper()
	links, err := List()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, link := range links {
		got = append(got, link.Name)
	}
	slices.Sort(got)
	slices.Sort(names)
	if !slices.Equal(got, names) {
		t.Errorf("host links: %v, want %v", got, names)
	}
}
