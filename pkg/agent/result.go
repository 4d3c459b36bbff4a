package agent

import (
	"net"
	"net/netip"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/cni"
	"github.com/weft-network/weft/pkg/cniwire"
)

// result is what the runtime learns.
func result(req cniwire.Request, want cni.PodInterface, made cni.Attachment, dns types.DNS) *types100.Result {
	pod := 1
	r := &types100.Result{DNS: dns, Interfaces: []*types100.Interface{
		{Name: made.HostName, Mac: made.HostMAC.String()},
		{Name: req.IfName, Mac: made.MAC.String(), Mtu: want.MTU, Sandbox: req.NetNS},
	}}
	for _, address := range want.Addresses {
		ip := &types100.IPConfig{Interface: &pod, Address: ipNet(address)}
		for _, gateway := range want.Gateways {
			if gateway.Is4() == address.Addr().Is4() {
				ip.Gateway = gateway.AsSlice()
			}
		}
		r.IPs = append(r.IPs, ip)
	}
	for _, gateway := range want.Gateways {
		r.Routes = append(r.Routes, defaultRoute(gateway))
	}
	return r
}

func ipNet(p netip.Prefix) net.IPNet {
	return net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func defaultRoute(gateway netip.Addr) *types.Route {
	zero := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if gateway.Is6() {
		zero = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return &types.Route{Dst: ipNet(zero), GW: gateway.AsSlice()}
}

// resultDNS is the network configuration's or, without, the cluster's for the pod's namespace. kubelet does not read it: a pod's dnsPolicy is not
// known here.
func resultDNS(config cniwire.Config, cluster networkv1alpha1.DNS, namespace string) (dns types.DNS, err error) {
	if config.DNS != nil {
		return *config.DNS, nil
	}
	known, err := cluster.ForNamespace(namespace)
	if known == nil || err != nil {
		return dns, err
	}
	for _, server := range known.Nameservers {
		dns.Nameservers = append(dns.Nameservers, server.String())
	}
	dns.Search, dns.Options = known.Searches, known.Options
	return dns, nil
}
