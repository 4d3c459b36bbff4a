package migrate

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// frrConfigurationKind is the kind of frr-k8s that says with which routers nodes have BGP sessions. RouteAdvertisements of
// ovn-kubernetes select its objects.
var frrConfigurationKind = schema.GroupKind{Group: "frrk8s.metallb.io", Kind: "FRRConfiguration"}

// generatedFRR are the prefixes of the FRRConfigurations that programs make.
var generatedFRR = []string{"ovnk-generated-", "metallb-"}

// frrPeer is a neighbour of an FRRConfiguration, and the name of its BGPPeer.
type frrPeer struct {
	fields
	name  string
	myASN int64
}

// frrPeers lists the neighbours of the routers of a spec that are in the nodes' own routing table. others counts the routers of
// other tables.
func frrPeers(configuration string, spec fields) (peers []frrPeer, others int) {
	for _, router := range spec.inner("bgp").list("routers") {
		if vrf := router.text("vrf"); vrf != "" && vrf != "default" {
			others++
			clear(router.left)
			continue
		}
		asn := router.number("asn")
		for _, key := range []string{"id", "prefixes", "imports"} { // BGPAdvertisements say what is announced
			router.take(key)
		}
		for _, neighbour := range router.list("neighbors") {
			name := configuration
			if len(peers) > 0 {
				name = fmt.Sprintf("%s-%d", configuration, len(peers)+1)
			}
			peers = append(peers, frrPeer{neighbour, weftName(name), asn})
		}
	}
	return peers, others
}

// frrConfiguration translates the sessions of an FRRConfiguration, one BGPPeer for each neighbour.
func frrConfiguration(i *item) {
	if slices.ContainsFunc(generatedFRR, func(prefix string) bool { return strings.HasPrefix(i.GetName(), prefix) }) {
		i.notNeeded("ovn-kubernetes or MetalLB makes it of other objects, which are translated")
		return
	}
	spec := i.spec()
	peers, others := frrPeers(i.GetName(), spec)
	if others > 0 {
		i.lose("spec.bgp.routers", "Weft's sessions are in the nodes' own routing table; %d routers have a vrf", others)
	}
	if len(peers) == 0 {
		i.cannot("it has no neighbours in the nodes' own routing table", bgpNext)
		return
	}
	profiles := frrProfiles(spec)
	nodes, selects := spec.selector("nodeSelector")
	spec.drop(i, "Weft does not run FRR", true, "raw")
	for _, neighbour := range peers {
		peer := i.frrNeighbour(neighbour, profiles)
		if selects && len(nodes.MatchLabels)+len(nodes.MatchExpressions) > 0 {
			peer.Spec.NodeSelector = nodes.DeepCopy()
		}
		if peer.Spec.PeerASN == 0 || peer.Spec.PeerAddress == "" {
			i.lose(neighbour.path, "Weft needs the router's address and AS number: %s is not translated", neighbour.name)
			continue
		}
		i.becomes(fileBGP, peer, "")
	}
}

func (i *item) frrNeighbour(neighbour frrPeer, profiles map[string]bfdProfile) *networkv1alpha1.BGPPeer {
	peer := &networkv1alpha1.BGPPeer{ObjectMeta: metav1.ObjectMeta{Name: neighbour.name}}
	peer.SetGroupVersionKind(networkv1alpha1.GroupVersion.WithKind("BGPPeer"))
	peer.Spec = networkv1alpha1.BGPPeerSpec{PeerAddress: networkv1alpha1.EgressAddress(neighbour.text("address")),
		PeerASN: neighbour.number("asn"), MyASN: neighbour.myASN, PeerPort: int32(neighbour.number("port")),
		SourceAddress: networkv1alpha1.EgressAddress(neighbour.text("sourceaddress"))}
	if neighbour.text("dynamicASN") == "internal" {
		peer.Spec.PeerASN = neighbour.myASN
	}
	peer.Spec.EBGPMultiHop = neighbour.flag("ebgpMultiHop") && peer.Spec.PeerASN != peer.Spec.MyASN
	i.timers(neighbour.fields, peer)
	i.password(neighbour.fields, peer)
	neighbour.drop(i, "BGPAdvertisements say what is announced", false, "toAdvertise")
	neighbour.drop(i, "Weft takes no routes from routers", true, "toReceive")
	i.bfd(neighbour.fields, profiles, peer)
	neighbour.drop(i, "a session of Weft has both families", false, "disableMP", "dualStackAddressFamily")
	neighbour.drop(i, "Weft's sessions use the nodes' own routes", true, "interface")
	if !neighbour.flag("enableGracefulRestart") {
		i.note(neighbour.at("enableGracefulRestart"), "routers keep the routes of a restarting agent for 120 s: "+
			"spec.gracefulRestartTimeSeconds")
	}
	return peer
}

// routeAdvertisements translates RouteAdvertisements of ovn-kubernetes for the default network.
func routeAdvertisements(i *item) {
	spec := i.spec()
	if vrf := spec.text("targetVRF"); vrf != "" && vrf != "default" {
		i.cannot("Weft announces in the nodes' own routing table, and targetVRF is "+vrf, bgpNext)
		return
	}
	ofDefault, further := false, 0
	for _, selector := range spec.list("networkSelectors") {
		if selector.text("networkSelectionType") == "DefaultNetwork" {
			ofDefault = true
			continue
		}
		further++
		for _, key := range []string{"clusterUserDefinedNetworkSelector", "primaryUserDefinedNetworkSelector",
			"secondaryUserDefinedNetworkSelector", "networkAttachmentDefinitionSelector"} {
			selector.take(key)
		}
	}
	if !ofDefault {
		i.cannot("Weft announces routes of the cluster's network, and not of Networks", bgpNext)
		return
	}
	if further > 0 {
		i.lose("spec.networkSelectors", "Weft announces routes of the cluster's network alone; %d selectors of other networks "+
			"are left out", further)
	}
	adv := &networkv1alpha1.BGPAdvertisement{ObjectMeta: metav1.ObjectMeta{Name: weftName(i.GetName())}}
	adv.SetGroupVersionKind(networkv1alpha1.GroupVersion.WithKind("BGPAdvertisement"))
	for _, what := range spec.texts("advertisements") {
		switch what {
		case "PodNetwork":
			adv.Spec.PodSubnets = true
		case "EgressIP":
			adv.Spec.EgressIPs = &networkv1alpha1.BGPEgressIPs{}
		default:
			i.lose("spec.advertisements", "%s is unknown", what)
		}
	}
	if nodes, ok := spec.selector("nodeSelector"); ok && len(nodes.MatchLabels)+len(nodes.MatchExpressions) > 0 {
		adv.Spec.NodeSelector = &nodes
	}
	if chosen, ok := spec.selector("frrConfigurationSelector"); ok && len(chosen.MatchLabels)+len(chosen.MatchExpressions) > 0 {
		adv.Spec.Peers = i.peersOf(chosen)
		if len(adv.Spec.Peers) == 0 {
			i.cannot("frrConfigurationSelector selects no FRRConfiguration with neighbours", bgpNext)
			return
		}
	}
	i.becomes(fileBGP, adv, "")
}

// peersOf returns the names of the BGPPeers of the FRRConfigurations that a selector selects.
func (i *item) peersOf(chosen metav1.LabelSelector) (names []string) {
	selector, err := metav1.LabelSelectorAsSelector(&chosen)
	if err != nil {
		i.lose("spec.frrConfigurationSelector", "%v", err)
		return nil
	}
	for _, o := range i.in.byKind[frrConfigurationKind] {
		if !selector.Matches(labels.Set(o.GetLabels())) {
			continue
		}
		peers, _ := frrPeers(o.GetName(), specOf(o))
		for _, p := range peers {
			names = append(names, p.name)
		}
	}
	slices.Sort(names)
	return names
}
