package chassis_test

import (
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/test/poll"
)

const (
	localNode  = "n1 local geneve 127.0.0.1"
	remoteNode = "n1 remote geneve 127.0.0.1"
)

// startNode starts Open vSwitch of a node n1 that follows the zone's southbound database, without ovn-controller.
func (z *zone) startNode() *ovndbtest.Switch {
	z.Helper()
	node := ovndbtest.StartSwitch(z)
	node.Ctl("set", "Open_vSwitch", ".", "external_ids:system-id=n1", "external_ids:hostname=n1", "external_ids:ovn-encap-type=geneve",
		"external_ids:ovn-encap-ip=127.0.0.1", "external_ids:ovn-bridge-datapath-type="+ovndbtest.Datapath(z),
		"external_ids:ovn-remote="+z.SB.Endpoint())
	return node
}

// awaitTakeover waits until ovn-controller has taken over the remote chassis.
func (z *zone) awaitTakeover() {
	z.Helper()
	poll.Eventually(z, patience, poll.True("ovn-controller writes to the chassis", func() bool {
		return strings.Contains(z.SB.Ctl("--bare", "--columns=other_config", "list", "Chassis"), "ovn-monitor-all")
	}))
}

// awaitController waits until ovn-controller has a chassis of its own and follows the northbound database.
func (z *zone) awaitController() {
	z.Helper()
	z.await(localNode)
	poll.Eventually(z, patience, poll.True("Chassis_Private has n1 once", func() bool { return z.private() == "n1" }))
	z.NB.Ctl("--wait=hv", "--timeout=20", "sync")
	z.await(localNode)
}

// A chassis that an ovn-controller left behind is replaced, with its Chassis_Private, so that ovn-northd does not wait
// for it. When the node returns, its ovn-controller makes its own.
func TestANodeLeavesAndReturns(t *testing.T) {
	z := newZone(t)
	node := z.startNode()
	z.run()
	node.RunController()
	z.awaitController()
	node.KillController()
	z.addNode("n1", "geneve 127.0.0.1")
	z.await(remoteNode)
	if got := z.private(); got != "" {
		t.Errorf("Chassis_Private has %q", got)
	}
	z.NB.Ctl("--wait=hv", "--timeout=20", "sync")

	z.removeNode("n1")
	z.await()
	node.RunController()
	z.awaitController()
}

// ovn-controller takes over a chassis with its name, keeps it remote and keeps its owner. So the chassis of a node that
// comes early is removed with its port, and ovn-controller makes another. Until then neither reverts the other.
func TestANodeReturnsBeforeItsPortIsRemoved(t *testing.T) {
	for name, restarts := range map[string]bool{"while the process runs": false, "while no process runs": true} {
		t.Run(name, func(t *testing.T) {
			z := newZone(t)
			node := z.startNode()
			stop := z.run()
			z.addNode("n1", "geneve 127.0.0.1")
			z.await(remoteNode)
			if restarts {
				stop()
			}
			node.RunController()
			z.awaitTakeover()
			z.NB.Ctl("--wait=sb", "--timeout=20", "sync")
			if got := z.writes(); got != 1 {
				t.Errorf("%d transactions, want 1", got)
			}
			z.removeNode("n1")
			if restarts {
				z.run()
			}
			z.awaitController()
			if got := z.writes(); got != 2 {
				t.Errorf("%d transactions, want 2", got)
			}
		})
	}
}

// The port of a node that still runs its ovn-controller here makes a remote chassis. What ovn-controller writes after that
// goes with the chassis, so that nothing of the node remains.
func TestANodeLeavesLate(t *testing.T) {
	z := newZone(t)
	node := z.startNode()
	z.run()
	node.RunController()
	z.awaitController()
	z.addNode("n1", "geneve 127.0.0.1")
	z.await(remoteNode)
	poll.Eventually(t, patience, poll.True("Chassis_Private has n1 again", func() bool { return z.private() == "n1" }))
	node.KillController()
	z.await(remoteNode)
	z.NB.Ctl("--wait=hv", "--timeout=20", "sync") // ovn-northd does not wait for a remote chassis
	z.removeNode("n1")
	z.await()
	if got := z.private(); got != "" {
		t.Errorf("Chassis_Private has %q", got)
	}
}

// A machine that was removed leaves its chassis behind. Until it goes, ovn-northd waits for it, and a machine that has its address gets
// no chassis.
func TestAFormerNodeLeavesNothing(t *testing.T) {
	z := newZone(t)
	z.SB.Ctl("chassis-add", "former", "geneve", "127.0.0.1", "--", "create", "Chassis_Private", "name=former")
	z.SB.Ctl("chassis-add", "n2", "geneve", "192.0.2.2")
	z.addNode("n3", "geneve 192.0.2.3")
	z.startNode().RunController()
	z.run()
	z.await("former local geneve 127.0.0.1", "n2 local geneve 192.0.2.2", "n3 remote geneve 192.0.2.3") // no node yet
	z.NB.Ctl("create", "Chassis_Template_Var", "chassis=n2")
	z.await(localNode, "n2 local geneve 192.0.2.2", "n3 remote geneve 192.0.2.3")
	poll.Eventually(t, patience, poll.True("Chassis_Private has n1 alone", func() bool { return z.private() == "n1" }))
	z.NB.Ctl("--wait=hv", "--timeout=20", "sync")
	if got := z.log.count("removed the chassis of a former node", `"chassis"="former"`); got != 1 {
		t.Errorf("%d lines of the log have the removal, want 1", got)
	}
}

// The chassis of a node that is in no row yet comes back, because its ovn-controller runs, and stays.
func TestAChassisWhoseControllerRunsStays(t *testing.T) {
	z := newZone(t)
	z.NB.Ctl("create", "Chassis_Template_Var", "chassis=n2")
	z.startNode().RunController()
	z.await(localNode)
	z.run()
	poll.Eventually(t, patience, poll.True("the chassis is removed once", func() bool {
		return z.log.count("removed the chassis of a former node", `"chassis"="n1"`) == 1
	}))
	z.await(localNode)
	z.addNode("n3", "geneve 192.0.2.3")
	z.await(localNode, "n3 remote geneve 192.0.2.3")
	if got := z.log.count("removed the chassis"); got != 1 {
		t.Errorf("%d removals, want 1", got)
	}
}
