package attach

import (
	"net"
	"net/netip"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/cni/cniwire"
)

// result returns the CNI result of an ADD.
func result(req cniwire.Request, made madeInterface, dns types.DNS) *types100.Result {
	pod, want := 1, made.Want
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

// resultDNS returns the network configuration's DNS settings, or else the cluster's for the pod's namespace. kubelet
// does not use them, because they cannot respect the pod's dnsPolicy.
func resultDNS(config cniwire.Config, cluster networkv1alpha1.DNS, namespace string) (dns types.DNS, err error) {
	if config.DNS != nil {
		return *config.DNS, nil
	}
	settings, err := cluster.ForNamespace(namespace)
	if settings == nil || err != nil {
		return dns, err
	}
	for _, server := range settings.Nameservers {
		dns.Nameservers = append(dns.Nameservers, server.String())
	}
	dns.Search, dns.Options = settings.Searches, settings.Options
	return dns, nil
}
