package migrate

import (
	"net/netip"
	"strings"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// externalRoute translates an AdminPolicyBasedExternalRoute of ovn-kubernetes.
func externalRoute(i *item) {
	made := &networkv1alpha1.ExternalRoute{}
	made.Name = i.GetName()
	made.SetGroupVersionKind(networkv1alpha1.GroupVersion.WithKind("ExternalRoute"))
	spec := i.spec()
	made.Spec.NamespaceSelector, _ = spec.inner("from").selector("namespaceSelector")
	hops := spec.inner("nextHops")
	for _, hop := range hops.list("static") {
		text := hop.text("ip")
		address, err := netip.ParseAddr(text)
		if err != nil {
			hop.bad("ip", text, "an address")
			continue
		}
		made.Spec.NextHops.Static = append(made.Spec.NextHops.Static,
			networkv1alpha1.StaticNextHop{Address: networkv1alpha1.EgressAddress(address.String()), BFD: hop.flag("bfdEnabled")})
	}
	for _, hop := range hops.list("dynamic") {
		var pods networkv1alpha1.PodNextHops
		pods.PodSelector, _ = hop.selector("podSelector")
		pods.NamespaceSelector, _ = hop.selector("namespaceSelector")
		pods.BFD, pods.Network = hop.flag("bfdEnabled"), hop.text("networkAttachmentName")
		if pods.Network != "" && !strings.Contains(pods.Network, "/") {
			hop.bad("networkAttachmentName", pods.Network, "a name with its namespace")
		}
		made.Spec.NextHops.Pods = append(made.Spec.NextHops.Pods, pods)
	}
	if len(made.Spec.NextHops.Static)+len(made.Spec.NextHops.Pods) == 0 {
		i.cannot("it has no next hop", "write the ExternalRoute by hand: docs/user/externalroute.md")
		return
	}
	i.becomes(fileEgress, made, "")
}
