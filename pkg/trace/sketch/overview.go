package sketch

import (
	"fmt"

	"github.com/weft-network/weft/pkg/ovn/names"
)

// Overview returns the graph of a large network: the cluster router and each node's switch, with the number of the
// node's pods in place of the pods.
func Overview(in Input) Graph {
	pods := map[string]int{} // node -> pods on its switch
	for _, p := range in.Pods {
		if !p.OnHost {
			pods[p.Node]++
		}
	}
	cluster := &Vertex{Name: names.ClusterRouter, Shape: Router,
		Detail: fmt.Sprintf("%d nodes, %d services", len(in.Nodes), len(in.Services))}
	for _, name := range sorted(in.Nodes) {
		v := nodeSwitch(in.Nodes[name], nil, nil)
		v.Detail, v.Below = fmt.Sprintf("%d pods, %s", pods[name], v.Detail), nil
		cluster.Below = append(cluster.Below, v)
	}
	return Graph{Roots: []*Vertex{cluster}}
}
