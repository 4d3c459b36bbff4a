package invariant_test

import (
	"fmt"
	"testing"

	"github.com/weft-network/weft/pkg/facts"

	"github.com/weft-network/weft/pkg/invariant"
)

// BenchmarkCheck shows that Check is linear: four times the pods take four times as long.
func BenchmarkCheck(b *testing.B) {
	for _, nodes := range []int{50, 200} {
		const podsOfANode = 50
		b.Run(fmt.Sprintf("%d pods", nodes*podsOfANode), func(b *testing.B) {
			w := newWorld(b)
			plan, err := facts.ParseClusterNetwork(w.ClusterNetwork)
			if err != nil {
				b.Fatal(err)
			}
			for n := range nodes {
				node := fmt.Sprintf("more-%d", n)
				w.addNode(node, plan)
				for pod := range podsOfANode {
					w.addPod(fmt.Sprintf("%s-%d", node, pod), node, 5+pod)
				}
			}
			for b.Loop() {
				for _, v := range invariant.Check(w.World) {
					if v.Invariant != "CountsAreRight" {
						b.Fatal(v)
					}
				}
			}
		})
	}
}
