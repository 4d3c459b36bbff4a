package floating

import (
	"net/netip"

	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// ChooseAfter is Choose as it would be after the end of pods: addresses with policy Pod are free, all others are kept.
// The book does not change.
func (b *Book) ChooseAfter(a Requester, node Node, ended []types.UID) ([]Choice, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	had := map[netip.Addr]*networkv1alpha1.FloatingIP{}
	for _, pod := range ended {
		for address := range b.byPod[pod] {
			had[address] = b.ips[address]
		}
	}
	for address, f := range had {
		after := f.DeepCopy()
		after.Spec.Holder.PodUID = ""
		if after.Spec.Holder.ReleasePolicy == networkv1alpha1.ReleaseWithPod {
			after.Spec.Holder = nil
		}
		b.put(address, after)
	}
	choices, err := b.choose(a, node)
	for address, f := range had {
		b.put(address, f)
	}
	return choices, err
}
