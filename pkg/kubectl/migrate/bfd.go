package migrate

import (
	"cmp"

	"k8s.io/apimachinery/pkg/runtime/schema"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// bfdProfileKind are MetalLB's parameters of BFD, which BGPPeers name.
var bfdProfileKind = schema.GroupKind{Group: "metallb.io", Kind: "BFDProfile"}

// maxMultiplier is the largest spec.bfd.detectMultiplier.
const maxMultiplier = 50

// bfdProfile is a profile of BFD of MetalLB or FRR.
type bfdProfile struct {
	settings networkv1alpha1.BGPPeerBFD
	// notes and lost say what has another value in Weft, and what has no counterpart.
	notes, lost []string
}

// readBFDProfile takes the fields of a profile. Omitted intervals have the same defaults everywhere.
func readBFDProfile(f fields) (p bfdProfile) {
	multiplier := f.number("detectMultiplier")
	p.settings = networkv1alpha1.BGPPeerBFD{TransmitIntervalMilliseconds: int32(f.number("transmitInterval")),
		ReceiveIntervalMilliseconds: int32(f.number("receiveInterval")), DetectMultiplier: int32(min(multiplier, maxMultiplier))}
	if multiplier > maxMultiplier {
		p.notes = append(p.notes, "the multiplier becomes 50, the largest")
	}
	if f.flag("echoMode") {
		p.lost = append(p.lost, "Weft has no echo function")
	}
	if f.flag("passiveMode") {
		p.lost = append(p.lost, "Weft's nodes send the first packet, whatever the router does")
	}
	const ofFRR = 254
	if ttl := f.number("minimumTtl"); cmp.Or(ttl, ofFRR) != ofFRR {
		p.lost = append(p.lost, "Weft accepts any TTL from a router behind others")
	}
	f.take("echoInterval")
	f.take("name")
	return p
}

// metalLBProfiles returns MetalLB's profiles by name.
func (i *item) metalLBProfiles() map[string]bfdProfile {
	found := map[string]bfdProfile{}
	for _, o := range i.in.byKind[bfdProfileKind] {
		found[o.GetName()] = readBFDProfile(specOf(o))
	}
	return found
}

// frrProfiles takes the profiles of the spec of an FRRConfiguration, by name.
func frrProfiles(spec fields) map[string]bfdProfile {
	found := map[string]bfdProfile{}
	for _, f := range spec.inner("bgp").list("bfdProfiles") {
		name, _ := f.left["name"].(string)
		found[name] = readBFDProfile(f)
	}
	return found
}

// bfd translates the profile that a session names.
func (i *item) bfd(spec fields, profiles map[string]bfdProfile, peer *networkv1alpha1.BGPPeer) {
	name := spec.text("bfdProfile")
	if name == "" {
		return
	}
	path := spec.at("bfdProfile")
	profile, ok := profiles[name]
	if !ok {
		i.lose(path, "there is no profile %s: set spec.bfd", name)
		return
	}
	peer.Spec.BFD = profile.settings.DeepCopy()
	for _, note := range profile.notes {
		i.note(path, "profile %s: %s", name, note)
	}
	for _, lost := range profile.lost {
		i.lose(path, "profile %s: %s", name, lost)
	}
	if peer.Spec.PeerASN == peer.Spec.MyASN {
		i.note(path, "set spec.bfd.multiHop if the router is not on the nodes' link")
	}
}
