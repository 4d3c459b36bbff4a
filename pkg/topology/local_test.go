package topology_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/topology"
)

// Changes of the endpoints of a service that stays on its node make ovn-northd recompute nothing, also if a node gets its first
// endpoint or loses its last. A computation from nothing gives the same flows.
func TestLocalEndpointsAreIncremental(t *testing.T) {
	all := goldens(t)
	g := all[slices.IndexFunc(all, func(g golden) bool { return g.name == "local" })]
	for _, protocol := range []facts.Protocol{facts.TCP, facts.UDP} {
		t.Run(string(protocol), func(t *testing.T) {
			central := ovndbtest.StartCentral(t)
			addChassis(central, g.units)
			e := engine(t, central.NB)
			for _, u := range g.units {
				settle(t, e, u)
			}
			settle(t, e, topology.ServiceUnit(localService(protocol)))
			central.Sync()
			for _, endpoints := range []string{"10.244.0.3@w1", "10.244.0.3@w1 10.244.1.3@w2", "10.244.1.3@w2", "10.244.0.3@w1", "10.244.0.4@w1",
				"10.244.0.3@w1 10.244.0.4@w1", "10.244.0.3@w3", "", "10.244.1.3@w2"} {
				central.Northd("inc-engine/clear-stats")
				settle(t, e, topology.ServiceUnit(localService(protocol, strings.Fields(endpoints)...)))
				central.Sync()
				for _, node := range []string{"northd", "lflow"} {
					if n := strings.TrimSpace(central.Northd("inc-engine/show-stats", node, "recompute")); n != "0" {
						t.Errorf("endpoints %q: northd has recomputed %s %s times", endpoints, node, n)
					}
				}
				incremental := central.SB.Ctl("lflow-list")
				central.Northd("inc-engine/recompute")
				central.Sync()
				if anew := central.SB.Ctl("lflow-list"); anew != incremental {
					t.Errorf("endpoints %q: northd's flows are\n%s\nand computed from nothing\n%s", endpoints, incremental, anew)
				}
			}
		})
	}
}

// localService returns a service with one port, whose clients on the nodes w1 and w2 stay there. An endpoint is "<address>@<node>".
func localService(protocol facts.Protocol, endpoints ...string) facts.Service {
	address := netip.MustParseAddr("10.96.0.99")
	port := facts.ServicePort{Protocol: protocol, Number: 80,
		VIPs: []facts.VIP{{AddrPort: netip.AddrPortFrom(address, 80), Reach: facts.ReachAll, From: facts.FromLocal}}}
	for _, text := range endpoints {
		at, node, _ := strings.Cut(text, "@")
		port.Backends = append(port.Backends, facts.Backend{AddrPort: netip.AddrPortFrom(netip.MustParseAddr(at), 8080), Node: node})
	}
	return facts.Service{Namespace: "demo", Name: "moving", Ports: []facts.ServicePort{port}, ClusterIPs: []netip.Addr{address},
		Nodes: []facts.ServiceNode{{Name: "w1", Chassis: "chassis-1"}, {Name: "w2", Chassis: "chassis-2"}}}
}
