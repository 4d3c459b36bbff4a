package cni

import (
	"net"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
)

func TestVerifyAcceptsAnAttachedInterface(t *testing.T) {
	want := dualStack(podNS(t))
	want.IngressGuard = true
	mustAttach(t, want)
	if err := Verify(want); err != nil {
		t.Error(err)
	}
}

func TestVerifyNamesWhatIsMissing(t *testing.T) {
	needRoot(t)
	inThePod := func(do func(*netlink.Handle, netlink.Link) error) func(*testing.T, PodInterface) {
		return func(t *testing.T, want PodInterface) {
			inPod(t, want.NetNS, func(pod *netlink.Handle) error {
				link, err := pod.LinkByName(want.IfName)
				if err != nil {
					return err
				}
				return do(pod, link)
			})
		}
	}
	for text, spoil := range map[string]func(*testing.T, PodInterface){
		"Link not found": func(t *testing.T, want PodInterface) {
			if err := Detach(want.ContainerID, want.IfName); err != nil {
				t.Fatal(err)
			}
		},
		"is down": func(t *testing.T, want PodInterface) {
			link, err := netlink.LinkByName(HostName(want.ContainerID, want.IfName))
			if err != nil {
				t.Fatal(err)
			}
			if err := netlink.LinkSetDown(link); err != nil {
				t.Fatal(err)
			}
		},
		"has no guard": func(t *testing.T, want PodInterface) {
			if err := unguard(HostName(want.ContainerID, want.IfName)); err != nil {
				t.Fatal(err)
			}
		},
		"MAC": inThePod(func(pod *netlink.Handle, link netlink.Link) error {
			return pod.LinkSetHardwareAddr(link, net.HardwareAddr{2, 0, 0, 0, 0, 1})
		}),
		"MTU": inThePod(func(pod *netlink.Handle, link netlink.Link) error {
			return pod.LinkSetMTU(link, 1390)
		}),
		"address fd00:10:244::5/64 is missing": inThePod(func(pod *netlink.Handle, link netlink.Link) error {
			return pod.AddrDel(link, &netlink.Addr{IPNet: mustIPNet("fd00:10:244::5/64")})
		}),
		"route 0.0.0.0/0 via 10.244.0.1 is missing": inThePod(func(pod *netlink.Handle, link netlink.Link) error {
			return pod.RouteDel(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: mustIPNet("0.0.0.0/0")})
		}),
	} {
		t.Run(text, func(t *testing.T) {
			want := dualStack(podNS(t))
			want.IngressGuard = true
			mustAttach(t, want)
			spoil(t, want)
			if err := Verify(want); err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("Verify: %v", err)
			}
		})
	}
}

func mustIPNet(s string) *net.IPNet {
	ip, prefix, err := net.ParseCIDR(s)
	if err != nil {
		panic(err)
	}
	prefix.IP = ip
	return prefix
}
