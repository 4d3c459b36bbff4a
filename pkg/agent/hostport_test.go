package agent_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/facts"

	corev1 "k8s.io/api/core/v1"

	"github.com/weft-network/weft/pkg/agent"
	"github.com/weft-network/weft/pkg/topology"
)

// giveHostPort writes the rows of a pod with a host port, as the operator does.
func (n *node) giveHostPort(p pod, port uint16) {
	n.Helper()
	n.apply(topology.PodUnit(topology.Pod{
		Namespace: "demo", Name: p.name, UID: p.uid, Node: nodeName, Chassis: n.status().Chassis,
		Addresses: p.addresses(), MAC: p.mac(), Slot: p.slot,
		HostPorts: []facts.HostPort{{Protocol: corev1.ProtocolTCP, Port: port, Target: 80}},
	}))
}

// awaitHostPort waits until the node's table translates a port for a pod, or until it no longer does.
func (n *node) awaitHostPort(p pod, port uint16, wanted bool) {
	n.Helper()
	rule := fmt.Sprintf("%s . tcp . %d : %s . 80", encapIP, port, p.addresses()[0])
	n.until(fmt.Sprintf("%q exists: %t", rule, wanted), func() error {
		text := n.ruleset()
		return isTrue(strings.Contains(text, rule) == wanted, text)
	})
}

// A pod has its host ports from its ADD to its DEL, independent of the databases, and only while the runtime has its
// sandbox.
func TestHostPortsLastAsLongAsTheInterface(t *testing.T) {
	cri := &criRuntime{}
	n := readyNodeWith(t, func(o *agent.Options) { o.Sandboxes, o.ListDelay = cri.sandboxes, 50*time.Millisecond })
	n.setGateway(sharedGateway)
	web, coming, going := n.newPod("web", 5), n.newPod("coming", 6), n.newPod("going", 7)
	cri.set(nil, web, going)
	n.giveHostPort(web, 18080)
	n.giveHostPort(coming, 18081)
	n.add(web)
	n.awaitHostPort(web, 18080, true)
	n.awaitHostPort(coming, 18081, false)

	n.givePort(going)
	n.add(going)
	cri.set(nil, going) // web's sandbox is no longer listed, but its port and interface exist
	n.central.SB.Kill()
	n.awaitHostPort(web, 18080, false)
	n.awaitPods(web, going)
	cri.set(nil, web, going)
	n.central.SB.Run()
	n.awaitHostPort(web, 18080, true)

	n.central.SB.Kill() // so that the row stays
	n.del(web)
	n.awaitHostPort(web, 18080, false)
	n.central.SB.Run()
}

// A reserved port of the host is not translated, even if a row requests it.
func TestReservedHostPortsStayTheHosts(t *testing.T) {
	n := readyNode(t)
	n.setGateway(sharedGateway)
	web, greedy := n.newPod("web", 5), n.newPod("greedy", 6)
	n.giveHostPort(greedy, 10250)
	n.giveHostPort(web, 18080)
	n.add(greedy)
	n.add(web)
	n.awaitHostPort(web, 18080, true)
	n.awaitHostPort(greedy, 10250, false)
}
