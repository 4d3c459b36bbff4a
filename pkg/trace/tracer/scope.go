package tracer

import (
	"regexp"
	"slices"
	"strings"

	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/trace"
)

// reads is what a trace reads of the southbound database. ovn-trace takes some 0.1 ms to parse a flow, and parses flows of
// groups for each of their datapaths; a cluster of 500 nodes and 10,000 pods has more than 100,000 flows.
type reads struct {
	datapaths []string // names
	literals
}

// around returns what is around the nodes where the packets of a request enter, and between all nodes.
func (k knowledge) around(packets []trace.Packet) reads {
	datapaths, nodes := []string{names.ClusterRouter, names.JoinSwitch}, []string{}
	for _, p := range packets {
		entered := k.names[k.datapathOf[p.Inport]]
		node := entered
		for _, prefix := range []string{names.GatewayRouter(""), names.EgressRouter(""), names.ExternalSwitch("")} {
			node = strings.TrimPrefix(node, prefix)
		}
		if p.Continued() {
			node = strings.TrimPrefix(p.To, names.TransitSwitchPort(""))
			datapaths = append(datapaths, names.TransitRouter)
		}
		datapaths = append(datapaths, entered, names.NodeSwitch(node), names.GatewayRouter(node), names.EgressRouter(node),
			names.ExternalSwitch(node))
		nodes = append(nodes, node)
	}
	return reads{k.present(datapaths), literalsOf(packets, nodes)}
}

// present returns the datapaths that the database has, once each.
func (k knowledge) present(all []string) (found []string) {
	for _, name := range all {
		if _, ok := k.datapaths[name]; ok && !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	return found
}

var visited = regexp.MustCompile(`\(dp="([^"]+)"`)

// learn adds what a trace's text has and the trace did not read. more is false if there is nothing.
func (r *reads) learn(k knowledge, left *leftOut, text string) (more bool) {
	wider := slices.Clone(r.datapaths)
	for _, match := range visited.FindAllStringSubmatch(text, -1) {
		wider = append(wider, match[1])
	}
	wider = k.present(wider)
	visits := len(wider) > len(r.datapaths)
	r.datapaths = wider
	return r.literals.learn(left, text) || visits
}
