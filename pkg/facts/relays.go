package facts

import (
	"bytes"
	"crypto/sha256"
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// RelaysOf returns the relays of a zone's southbound database, or of the default zone for "". ok is false if the status does not
// have the zone, because it left the spec.
func RelaysOf(cn *networkv1alpha1.ClusterNetwork, zone networkv1alpha1.ZoneName) (relays []networkv1alpha1.RelayStatus, ok bool) {
	if zone == "" {
		return cn.Status.Relays, true
	}
	i := slices.IndexFunc(cn.Status.Zones, func(z networkv1alpha1.ZoneStatus) bool { return z.Name == zone })
	if i < 0 {
		return nil, false
	}
	return cn.Status.Zones[i].Relays, true
}

// NodeRelays returns the addresses of the relays that a node uses, in its own order, at most RelaysOfNode. It is nil if
// no relay is in use.
//
// Each node ranks the relays by a digest of both names (rendezvous hashing). So relays get equal shares, the nodes of a
// lost relay are spread over all others, and another relay changes the choice of only those nodes that now rank it
// first or second. That matters because ovn-controller copies the database again when its remotes change.
func NodeRelays(node string, relays []networkv1alpha1.RelayStatus) []networkv1alpha1.IP {
	type ranked struct {
		digest  []byte
		address networkv1alpha1.IP
	}
	var all []ranked
	for _, r := range relays {
		if r.State.InUse() {
			digest := sha256.Sum256([]byte(node + "\x00" + r.Node))
			all = append(all, ranked{digest[:], r.Address})
		}
	}
	slices.SortFunc(all, func(a, b ranked) int { return bytes.Compare(a.digest, b.digest) })
	var chosen []networkv1alpha1.IP
	for _, r := range all[:min(len(all), networkv1alpha1.RelaysOfNode)] {
		chosen = append(chosen, r.address)
	}
	return chosen
}
