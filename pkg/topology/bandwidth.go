package topology

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/unit"
)

// bandwidthPriority exceeds that of the rules of whole switches, because OVN applies only the first matching rule,
// for marks and limits alike.
const bandwidthPriority = 2000

// bandwidth returns the bandwidth limits of a pod's port, which belong to its switch. OVN meters them on the pod's
// node, on both datapaths. A packet above the limit is dropped.
func (p Pod) bandwidth(port *nbdb.LogicalSwitchPort, on unit.Ref) (rows []unit.Row, members []unit.Membership) {
	for _, limit := range []struct {
		direction nbdb.QoSDirection
		match     string
		bits      int64
	}{
		{nbdb.QoSDirectionFromLport, ovnexpr.FromPort(port.Name), p.Bandwidth.Egress},
		{nbdb.QoSDirectionToLport, ovnexpr.ToPort(port.Name), p.Bandwidth.Ingress},
	} {
		if limit.bits == 0 {
			continue
		}
		qos := &nbdb.QoS{
			UUID:      unit.UUID(nbdb.QoSTable, port.UUID+" "+limit.direction),
			Direction: limit.direction, Match: limit.match, Priority: bandwidthPriority, Bandwidth: meter(limit.bits),
		}
		rows = append(rows, unit.Row{Model: qos})
		members = append(members, unit.Membership{Parent: on, Column: "qos_rules", Element: qos.UUID})
		if p.EgressIP != "" && limit.direction == nbdb.QoSDirectionFromLport {
			rows, members = p.limitReplies(port, on, limit.bits, rows, members)
		}
	}
	return rows, members
}

// limitReplies adds rules that combine the limit with the mark of replies, which the limit would otherwise hide, and
// rules without the mark for replies within the cluster.
func (p Pod) limitReplies(port *nbdb.LogicalSwitchPort, on unit.Ref, bits int64, rows []unit.Row,
	members []unit.Membership) ([]unit.Row, []unit.Membership) {
	matches := map[string]int{ovnexpr.PortReplies(port.Name): replyMark}
	for _, like := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		matches[ovnexpr.PortReplies(port.Name)+" && "+ovnexpr.ToSet(names.Inside(names.Family(like)), like)] = 0
	}
	for _, match := range slices.Sorted(maps.Keys(matches)) {
		priority := bandwidthPriority + 2
		if matches[match] == replyMark {
			priority = bandwidthPriority + 1
		}
		replies := &nbdb.QoS{UUID: unit.UUID(nbdb.QoSTable, port.UUID+" "+match), Direction: nbdb.QoSDirectionFromLport,
			Match: match, Priority: priority,
			Bandwidth: meter(bits), Action: map[string]int{nbdb.QoSActionMark: matches[match]}}
		rows = append(rows, unit.Row{Model: replies})
		members = append(members, unit.Membership{Parent: on, Column: "qos_rules", Element: replies.UUID})
	}
	return rows, members
}

// meter returns a limit in OVN's units: the rate in kbit/s and the burst in kilobits. A burst of 0.8 s lets a single
// TCP connection come near the rate. With a smaller burst it backs off at each drop (docs/evidence/lab.md has the
// figures).
func meter(bits int64) map[string]int {
	rate := int(bits / 1000)
	return map[string]int{nbdb.QoSBandwidthRate: rate, nbdb.QoSBandwidthBurst: max(rate/10*8, minBurst)}
}

// minBurst is the smallest burst, in kilobits. It admits the largest packet of an interface, 64 KB, however low the
// rate is.
const minBurst = 525
