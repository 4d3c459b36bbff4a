package demo

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/test/lab"
)

// labCommand runs the lab's program in the repository.
const labCommand = "go run ./test/lab/cmd/weft-lab"

// dumpFlows is a command to run in a node.
const dumpFlows = "sh -c 'ovs-appctl -t " + lab.SwitchControl + " dpctl/dump-flows'"

// hint is a command to suggest: arguments of weft-lab, and what they show.
type hint struct{ args, what string }

// commands begins with an alias that shortens the others.
func commands(lab string, hints []hint) [][]cell {
	rows := [][]cell{text("alias weft-lab='" + labCommand + "'")}
	if lab != "weft" {
		rows[0][0].text = "export WEFT_LAB=" + lab + "; " + rows[0][0].text
	}
	width := 0
	for _, h := range hints {
		width = max(width, len(h.args))
	}
	for _, h := range hints {
		// One cell: the alias line would widen a column.
		rows = append(rows, text(fmt.Sprintf("weft-lab %-*s  # %s", width, h.args, h.what)))
	}
	return rows
}

func printNext(s Screen, lab string, pods []Pod, t Topology) {
	from, to := crossing(pods)
	s.title("Next commands")
	s.table(commands(lab, []hint{
		{"kubectl -n demo get pods -o wide", "the pods"},
		{"kubectl -n demo exec -it " + from.Name + " -- sh", "a shell in one: ip addr, ping, wget"},
		{"kubectl explain clusternetwork.spec", "what can be configured"},
		{"exec central -- ovn-nbctl show", "the logical topology as OVN prints it"},
		{"exec " + from.Node + " -- ovs-vsctl show", "what the agent made on a node"},
		{"shell " + from.Node, "a shell in a node, with ip, ovs-ofctl and ctr"},
	}))
	if flow, ok := traceFlow(from, to, t); ok {
		fmt.Fprintf(s, "\nThe path of a ping from %s to %s through the logical network:\n\n", from.Name, to.Name)
		fmt.Fprintf(s, "weft-lab exec central -- ovn-trace --summary %s '%s'\n", names.NodeSwitch(from.Node), flow)
	}
	fmt.Fprintf(s, "\nRemove the lab: %s\n", s.paint(bold, "make lab-down"))
}

// crossing returns a pair of pods on different nodes, if there is one.
func crossing(pods []Pod) (from, to Pod) {
	from, to = pods[0], pods[1]
	if i := slices.IndexFunc(pods, func(p Pod) bool { return p.Node != from.Node }); i >= 0 {
		to = pods[i]
	}
	return from, to
}

// traceFlow describes for ovn-trace a ping as it leaves the pod, towards the router as its next hop.
func traceFlow(from, to Pod, t Topology) (flow string, ok bool) {
	name := names.PodPort(names.DefaultNetwork, Namespace, from.Name)
	for _, sw := range t.Switches {
		i := slices.IndexFunc(sw.Ports, func(p Port) bool { return p.Name == name })
		if i < 0 || sw.Router == nil {
			continue
		}
		source, target := from.address(IPv4), to.address(IPv4)
		if source == (netip.Addr{}) || target == (netip.Addr{}) {
			return "", false
		}
		return fmt.Sprintf(`inport=="%s" && eth.src==%s && eth.dst==%s && ip4.src==%s && ip4.dst==%s && ip.ttl==64 && icmp4.type==8`,
			name, sw.Ports[i].MAC, sw.Router.MAC, source, target), true
	}
	return "", false
}
