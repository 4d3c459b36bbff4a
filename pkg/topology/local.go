package topology

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/unit"
)

// A cluster IP whose clients get only backends of their own node (internalTrafficPolicy: Local) has no template, because northd
// recomputes everything twice for each change of a variable. Instead each node with a backend has a balancer of its own. Other nodes
// have no balancer for the VIP, so its packets take the way of a port without a service. An ACL in front of the refusal drops them:
//
//	node's switch: no balancer ─▶ cluster router: policy ─▶ join switch: ACL drop
//
// UDP is different: nodes without a backend have a balancer too, which sends to nowhere. Without it, conntrack could remember the
// client's packets as a connection without translation. A client that keeps its port would then never reach a backend that comes
// later. When the balancer's text changes, ct_flush removes its connections.

// localACL is the priority of the ACLs that drop packets to a cluster IP on nodes without a backend. It precedes the refusal.
const localACL = refusalACL + 1

// isLocal reports whether a VIP is a cluster IP whose clients get only backends of their own node. Only cluster IPs are FromLocal for
// all clients.
func isLocal(vip facts.VIP) bool {
	return vip.From == facts.FromLocal && vip.Reach == facts.ReachAll && !vip.OnNode()
}

// renderLocal adds the texts of a local VIP to the balancers of single nodes.
func (s service) renderLocal(all vips, protocol facts.Protocol, vip facts.VIP, backends []facts.Backend) {
	for _, node := range s.Nodes {
		if protocol == facts.UDP || slices.ContainsFunc(backends, func(b facts.Backend) bool { return b.Node == node.Name }) {
			all.set(balancer{reach: vip.Reach, node: node.Name}, vip.String(), backendsOn(node, vip.From, backends, s.Turn))
		}
	}
}

// addLocalDrops adds an ACL to the join switch for each cluster IP, which drops packets to the ports of local VIPs. It does not depend
// on the backends, because northd recomputes all flows when an ACL comes or goes. While a service has no backend, its balancer
// refuses the packets first.
func (s service) addLocalDrops(u *unit.Unit) {
	for _, address := range s.ClusterIPs {
		var ports []ovnexpr.Ports
		for _, port := range s.Ports {
			for _, vip := range port.VIPs {
				if isLocal(vip) && vip.Addr() == address && port.Protocol != facts.UDP {
					ports = append(ports, ovnexpr.Ports{Protocol: strings.ToLower(string(port.Protocol)), First: vip.Port(), Last: vip.Port()})
				}
			}
		}
		if len(ports) == 0 {
			continue
		}
		to := ovnexpr.ToNetworks(netip.PrefixFrom(address, address.BitLen()))
		acl := &nbdb.ACL{
			UUID:      unit.UUID(nbdb.ACLTable, "local "+s.Namespace+"/"+s.Name+" "+address.String()),
			Direction: nbdb.ACLDirectionFromLport, Priority: localACL, Action: nbdb.ACLActionDrop,
			Match: ovnexpr.And(to, ovnexpr.ToPorts(ports...)).String(), ExternalIDs: map[string]string{RuleKey: "no endpoint on the client's node"},
		}
		u.Rows = append(u.Rows, unit.Row{Model: acl})
		u.Members = append(u.Members, unit.Membership{Parent: switchRef(names.JoinSwitch), Column: "acls", Element: acl.UUID})
	}
}
