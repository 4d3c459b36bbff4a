package migrate

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// The kinds of MetalLB that refer to each other.
var (
	metalLBPoolKind          = schema.GroupKind{Group: "metallb.io", Kind: "IPAddressPool"}
	metalLBAdvertisementKind = schema.GroupKind{Group: "metallb.io", Kind: "BGPAdvertisement"}
	metalLBCommunityKind     = schema.GroupKind{Group: "metallb.io", Kind: "Community"}
)

// metalLBPeer translates a BGPPeer of MetalLB.
func metalLBPeer(i *item) {
	spec := i.spec()
	peer := &networkv1alpha1.BGPPeer{ObjectMeta: metav1.ObjectMeta{Name: weftName(i.GetName())}}
	peer.SetGroupVersionKind(networkv1alpha1.GroupVersion.WithKind("BGPPeer"))
	peer.Spec = networkv1alpha1.BGPPeerSpec{PeerAddress: networkv1alpha1.EgressAddress(spec.text("peerAddress")),
		PeerASN: spec.number("peerASN"), MyASN: spec.number("myASN"), PeerPort: int32(spec.number("peerPort")),
		SourceAddress: networkv1alpha1.EgressAddress(spec.text("sourceAddress"))}
	switch {
	case spec.text("dynamicASN") != "":
		i.cannot("Weft needs the AS number of the router", "set spec.peerASN, and run the command again")
		return
	case peer.Spec.PeerAddress == "":
		i.cannot("Weft needs the address of the router, not a link", "set spec.peerAddress, and run the command again")
		return
	}
	peer.Spec.EBGPMultiHop = spec.flag("ebgpMultiHop") && peer.Spec.PeerASN != peer.Spec.MyASN
	i.timers(spec, peer)
	i.password(spec, peer)
	switch selectors := spec.list("nodeSelectors"); {
	case len(selectors) == 1:
		peer.Spec.NodeSelector = i.one(spec, "nodeSelectors", selectors)
	case len(selectors) > 1:
		spec.drop(i, "a BGPPeer has one selector of nodes: all nodes have a session now", true, "nodeSelectors")
	}
	if !spec.flag("enableGracefulRestart") {
		i.note("spec.enableGracefulRestart", "routers keep the routes of a restarting agent for 120 s: spec.gracefulRestartTimeSeconds")
	}
	i.bfd(spec, i.metalLBProfiles(), peer)
	spec.drop(i, "Weft's sessions are in the nodes' own routing table", true, "vrf", "interface")
	spec.drop(i, "a session of Weft has both families", false, "disableMP", "dualStackAddressFamily")
	spec.drop(i, "each node's ID is its IPv4 address, or follows from its name", false, "routerID")
	i.becomes(fileBGP, peer, "")
}

// timers reads the durations of a session.
func (i *item) timers(spec fields, peer *networkv1alpha1.BGPPeer) {
	seconds := func(key string, least, most int32) int32 {
		text := spec.text(key)
		if text == "" {
			return 0
		}
		d, err := time.ParseDuration(text)
		if err != nil {
			i.lose(spec.at(key), "%v", err)
			return 0
		}
		n := min(max(int32(d/time.Second), least), most)
		if time.Duration(n)*time.Second != d {
			i.note(spec.at(key), "%s becomes %d s", text, n)
		}
		return n
	}
	peer.Spec.HoldTimeSeconds = seconds("holdTime", 3, 65535)
	peer.Spec.KeepaliveTimeSeconds = seconds("keepaliveTime", 1, 21845)
	spec.drop(i, "Weft connects again after some seconds", false, "connectTime")
}

// password names the key of the Secret to which a person must copy the password. The manifests have no passwords.
func (i *item) password(spec fields, peer *networkv1alpha1.BGPPeer) {
	secret := spec.inner("passwordSecret").text("name")
	spec.take("passwordSecret")
	if spec.text("password") == "" && secret == "" {
		return
	}
	peer.Spec.PasswordKey = peer.Name
	i.note("spec.password", "it becomes the key %s of the Secret weft-bgp", peer.Name)
	i.in.step("Create the Secret weft-bgp in Weft's namespace, with the password of BGPPeer %s as its key %s", i.GetName(), peer.Name)
}

// metalLBAdvertisement translates a BGPAdvertisement of MetalLB.
func metalLBAdvertisement(i *item) {
	spec := i.spec()
	adv := &networkv1alpha1.BGPAdvertisement{ObjectMeta: metav1.ObjectMeta{Name: weftName(i.GetName())}}
	adv.SetGroupVersionKind(networkv1alpha1.GroupVersion.WithKind("BGPAdvertisement"))
	adv.Spec.LoadBalancers = &networkv1alpha1.BGPLoadBalancers{Pools: i.advertisedPools(spec)}
	adv.Spec.AggregationLength = int32(spec.number("aggregationLength"))
	adv.Spec.AggregationLengthV6 = int32(spec.number("aggregationLengthV6"))
	if spec.has("localPref") {
		preference := spec.number("localPref")
		adv.Spec.LocalPreference = &preference
	}
	for _, name := range spec.texts("peers") {
		adv.Spec.Peers = append(adv.Spec.Peers, weftName(name))
	}
	i.communities(spec, adv)
	switch selectors := spec.list("nodeSelectors"); {
	case len(selectors) == 1:
		adv.Spec.NodeSelector = i.one(spec, "nodeSelectors", selectors)
	case len(selectors) > 1:
		spec.drop(i, "a BGPAdvertisement has one selector of nodes: all nodes announce now", true, "nodeSelectors")
	}
	switch selectors := spec.list("serviceSelectors"); {
	case len(selectors) == 1:
		adv.Spec.LoadBalancers.ServiceSelector = i.one(spec, "serviceSelectors", selectors)
	case len(selectors) > 1:
		spec.drop(i, "a BGPAdvertisement has one selector of Services: all of the pools are announced now", true, "serviceSelectors")
	}
	i.becomes(fileBGP, adv, "")
}

// advertisedPools returns the names of the pools that a BGPAdvertisement is about, or nil if it is about all.
func (i *item) advertisedPools(spec fields) (names []string) {
	if !spec.has("ipAddressPools") && !spec.has("ipAddressPoolSelectors") {
		return nil
	}
	for _, o := range i.in.byKind[metalLBPoolKind] {
		if advertises(i.Unstructured, o) {
			names = append(names, weftName(o.GetName()))
		}
	}
	if value := spec.take("ipAddressPoolSelectors"); value != nil {
		i.note("spec.ipAddressPoolSelectors", "the pools that it selects now are named: %s", strings.Join(names, ", "))
	}
	spec.take("ipAddressPools")
	return names
}

// communities replaces the names that Communities define by their values.
func (i *item) communities(spec fields, adv *networkv1alpha1.BGPAdvertisement) {
	values := map[string]string{}
	for _, o := range i.in.byKind[metalLBCommunityKind] {
		for _, c := range specOf(o).list("communities") {
			values[c.text("name")] = c.text("value")
		}
	}
	for _, name := range spec.texts("communities") {
		value, named := values[name]
		if !named {
			value = name
		}
		if !strings.Contains(value, ":") && !wellKnownCommunity(value) {
			i.lose("spec.communities", "no Community defines %q", name)
			continue
		}
		adv.Spec.Communities = append(adv.Spec.Communities, networkv1alpha1.BGPCommunity(value))
	}
}

// wellKnownCommunity reports whether a community has a name of its own.
func wellKnownCommunity(name string) bool {
	return slices.Contains([]string{"no-export", "no-advertise", "no-export-subconfed", "no-peer", "blackhole", "graceful-shutdown"}, name)
}

// advertisedByBGP reports whether a BGPAdvertisement is about a pool.
func (i *item) advertisedByBGP() bool {
	for _, o := range i.in.byKind[metalLBAdvertisementKind] {
		if advertises(o, i.Unstructured) {
			return true
		}
	}
	return false
}
