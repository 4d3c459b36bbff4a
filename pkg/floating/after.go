package floating

import (
	"math"
	"net/netip"

	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// ChooseAfter is Choose as it would be after the end of pods: addresses with policy Pod are free, all others are kept.
// The book does not change.
func (b *Book) ChooseAfter(a Asker, node Node, ended []types.UID) ([]Choice, error) {
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

// FreeIn returns how many addresses of each family of a pool somebody can get on a node, as far as they fit into the
// number: IPv4 first. It has no entry for a family that the pool has not.
func (b *Book) FreeIn(pool string, node Node) (free []int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.pools[pool]
	if s == nil {
		return nil
	}
	for _, is4 := range s.Families() {
		var sum int64
		for i, segment := range s.Segments {
			if segment.First.Is4() == is4 && segment.Nodes.Matches(node.Labels) {
				left := segment.Size() - s.taken[i]
				if left > math.MaxInt64-sum {
					left = math.MaxInt64 - sum
				}
				sum += left
			}
		}
		free = append(free, sum)
	}
	return free
}
