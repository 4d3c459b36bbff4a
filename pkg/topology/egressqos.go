package topology

import (
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/unit"
)

// qosPriority is the priority of the first rule of an EgressQoS. Later rules count down. Rules of different namespaces
// never match the same packet.
const qosPriority = 1000

// EgressQoSUnit returns a unit with the rules of a namespace. In Shared mode packets that leave the cluster pass the join
// switch, whose one row serves all nodes. In Local mode they leave through the management port of their node, whose switch
// needs a row of its own. On neither path OVN applies other rules: of all rules of a switch and a direction it applies
// only the first that matches, and those for a pod's limits and for replies are on the way from the pod into its switch.
//
// The caller must create the sets of the selected pods, because OVN ignores a rule that names a missing set.
func EgressQoSUnit(q facts.EgressQoS) unit.Unit {
	u := unit.Unit{Key: EgressQoSKey(q.Namespace)}
	seen := map[string]bool{}
	for i, rule := range q.Rules {
		match := matchOfQoS(rule)
		if seen[match.String()] {
			continue // an earlier rule decides
		}
		seen[match.String()] = true
		row := qosRow(rule)
		row.Priority = qosPriority - i
		row.Direction = nbdb.QoSDirectionFromLport
		addQoS(&u, switchRef(names.JoinSwitch), row, ovnexpr.FromPort(names.JoinToRouter(names.ClusterRouter)), match)
		row.Direction = nbdb.QoSDirectionToLport
		for _, node := range q.LocalNodes {
			addQoS(&u, switchRef(names.NodeSwitch(node)), row, ovnexpr.ToPort(names.ManagementPort(node)), match)
		}
	}
	return u
}

// EgressQoSSelectors lists the sets of the pods that the rules select.
func EgressQoSSelectors(q facts.EgressQoS) map[unit.Key]facts.PodSelector {
	selectors := map[unit.Key]facts.PodSelector{}
	for _, rule := range q.Rules {
		selectors[PodSetKey(rule.Pods)] = rule.Pods
	}
	return selectors
}

// matchOfQoS matches the packets of the selected pods to the rule's destination. A destination implies a family.
func matchOfQoS(rule facts.EgressQoSRule) ovnexpr.Match {
	set := PodSetKey(rule.Pods)
	v4, v6 := addressSetName(set, families[0]), addressSetName(set, families[1])
	if !rule.To.IsValid() {
		return ovnexpr.Sets(ovnexpr.Source, v4, v6)
	}
	from := v6
	if rule.To.Addr().Is4() {
		from = v4
	}
	return ovnexpr.And(ovnexpr.SetOf(ovnexpr.Source, from, rule.To.Addr()), ovnexpr.ToNetworks(rule.To))
}

func qosRow(rule facts.EgressQoSRule) nbdb.QoS {
	row := nbdb.QoS{}
	if rule.DSCP != nil {
		row.Action = map[string]int{nbdb.QoSActionDSCP: *rule.DSCP}
	}
	if rule.Rate > 0 {
		row.Bandwidth = map[string]int{nbdb.QoSBandwidthRate: rule.Rate, nbdb.QoSBandwidthBurst: rule.Burst}
		if rule.Burst == 0 {
			row.Bandwidth = meter(int64(rule.Rate) * bitsPerKilobit)
		}
	}
	return row
}

const bitsPerKilobit = 1000

// addQoS adds a rule for the packets that pass a port of a switch.
func addQoS(u *unit.Unit, on unit.Ref, row nbdb.QoS, port string, match ovnexpr.Match) {
	row.Match = ovnexpr.And(ovnexpr.OfPort(port), match).String()
	row.UUID = unit.UUID(nbdb.QoSTable, string(u.Key)+" "+row.Match)
	u.Rows = append(u.Rows, unit.Row{Model: &row})
	u.Members = append(u.Members, unit.Membership{Parent: on, Column: "qos_rules", Element: row.UUID})
}
