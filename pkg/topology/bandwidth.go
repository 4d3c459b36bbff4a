package topology

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/weft-network/weft/pkg/names"
	"github.com/weft-network/weft/pkg/nbdb"
	"github.com/weft-network/weft/pkg/ovnexpr"
	"github.com/weft-network/weft/pkg/unit"
)

// bandwidthPriority is above rules of whole switches: OVN takes only the first that matches, for marks and limits alike.
const bandwidthPriority = 2000

// bandwidth wants the limits of a pod's port on its switch. OVN meters them where the pod is, on both datapaths; a packet above the
// limit is dropped.
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

// limitReplies wants the limit once more, with the mark of replies, which the limit would hide; and without it for what stays inside.
func (p Pod) limitReplies(port *nbdb.LogicalSwitchPort, on unit.Ref, bits int64, rows []unit.Row, members []unit.Membership) ([]unit.Row, []unit.Membership) {
	matches := map[string]int{ovnexpr.PortReplies(port.Name): replyMark}
	for _, like := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		matches[ovnexpr.PortReplies(port.Name)+" && "+ovnexpr.ToSet(names.Inside(names.Family(like)), like)] = 0
	}
	for _, match := range slices.Sorted(maps.Keys(matches)) {
		priority := bandwidthPriority + 2
		if matches[match] == replyMark {
			priority = bandwidthPriority + 1
		}
		replies := &nbdb.QoS{UUID: unit.UUID(nbdb.QoSTable, port.UUID+" "+match), Direction: nbdb.QoSDirectionFromLport, Match: match, Priority: priority,
			Bandwidth: meter(bits), Action: map[string]int{nbdb.QoSActionMark: matches[match]}}
		rows = append(rows, unit.Row{Model: replies})
		members = append(members, unit.Membership{Parent: on, Column: "qos_rules", Element: replies.UUID})
	}
	return rows, members
}

// meter is a limit in OVN's units: the rate in kbit/s, and how many kilobits may come at once. A burst of 0.8 s lets a single TCP connection
// come near the rate; with less it falls back at each drop (docs/track-record.md has the figures).
func meter(bits int64) map[string]int {
	rate := int(bits / 1000)
	return map[string]int{nbdb.QoSBandwidthRate: rate, nbdb.QoSBandwidthBurst: max(rate/10*8, minBurst)}
}

// minBurst lets the largest packet through that an interface can have, 64 KB, however low the rate is: in kilobits.
const minBurst = 525
