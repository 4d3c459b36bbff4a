package topology

import (
	"fmt"
	"slices"
	"strings"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/unit"
)

// tierNetworkPolicy is the tier of NetworkPolicies. The tiers of administrators' policies are before and behind it.
const tierNetworkPolicy = 2

// Priorities within tierNetworkPolicy. No policy denies what another policy allows.
const (
	policyAllowPriority   = 1001
	policyIsolatePriority = 1000
)

// policySide is a direction with its ACL options and matches.
type policySide struct {
	direction nbdb.ACLDirection
	options   map[string]string
	subject   func(group string) ovnexpr.Match
	peer      ovnexpr.Side
	text      string
}

// Egress is decided behind the load balancers, where a packet has the address of a backend instead of a service's.
var (
	ingressSide = policySide{direction: nbdb.ACLDirectionToLport, subject: ovnexpr.ToPortOf, peer: ovnexpr.Source, text: "ingress"}
	egressSide  = policySide{direction: nbdb.ACLDirectionFromLport, options: map[string]string{"apply-after-lb": "true"},
		subject: ovnexpr.FromGroup, peer: ovnexpr.Destination, text: "egress"}
)

// NetworkPolicyUnit returns a unit with a policy's ACLs on the port group of its subject. They are written in one
// transaction, so that isolation and allowed traffic take effect together. The unit waits for the group. The caller
// must create the sets, because OVN ignores an ACL that names a missing set.
func NetworkPolicyUnit(p facts.NetworkPolicy) unit.Unit {
	b := policyBuilder{subject: p.Subject, name: func(text string) string {
		return names.PolicyACL(p.Namespace, p.Name, text)
	}, unit: unit.Unit{Key: NetworkPolicyKey(p.Namespace, p.Name)},
		logging: p.Logging}
	if p.Ingress != nil {
		b.addNode()
	}
	b.addSides(p)
	return b.unit
}

type policyBuilder struct {
	subject facts.PodSelector
	name    func(text string) string // of an ACL
	unit    unit.Unit
	logging networkv1alpha1.ACLLogging
	network string // the Network of the subject's ports, or empty for the cluster network
}

// addSides adds the ACLs of both directions.
func (b *policyBuilder) addSides(p facts.NetworkPolicy) {
	if p.Ingress != nil {
		b.addSide(ingressSide, *p.Ingress)
	}
	if p.Egress != nil {
		b.addSide(egressSide, *p.Egress)
	}
	b.addPasses(tierNetworkPolicy)
	b.track()
}

func (b *policyBuilder) addSide(side policySide, rules facts.PolicyRules) {
	for _, rule := range rules.Rules {
		b.addRule(side, nbdb.ACL{Action: nbdb.ACLActionAllowRelated, Tier: tierNetworkPolicy, Priority: policyAllowPriority}, rule)
	}
	b.addACL(side, nbdb.ACL{Action: nbdb.ACLActionDrop, Tier: tierNetworkPolicy, Priority: policyIsolatePriority, Log: true},
		ovnexpr.IP(), side.text+" isolation")
}

// addNode allows traffic from the pod's own node, such as kubelet's probes. It matches the node's port and its
// address, because in Local mode other traffic uses that port too. It also allows a pod to reach itself through a
// service.
func (b *policyBuilder) addNode() {
	node := ovnexpr.And(ovnexpr.FromGroup(names.ManagementPorts),
		ovnexpr.Sets(ovnexpr.Source, names.ManagementAddresses(names.Family(families[0])),
			names.ManagementAddresses(names.Family(families[1]))))
	b.addACL(ingressSide, nbdb.ACL{Action: nbdb.ACLActionAllowRelated, Tier: tierNetworkPolicy,
		Priority: policyAllowPriority}, ovnexpr.Or(node, ovnexpr.Networks(ovnexpr.Source, hairpinSources()...)), "ingress of the own node")
}

// addPasses adds ACLs that pass everything to a tier, if the policy drops packets to pods there. Without them a denied connection that was
// open before loses only every second packet: ovn-northd has a flow that allows a blocked connection again if no ACL matches, and that
// flow applies to each tier (up to OVN 26.03.2). ACLs that apply after load balancing have no such flow.
//
// The ACLs match all ports of a switch, so that northd makes one logical flow of the ACLs of all policies.
func (b *policyBuilder) addPasses(tier int) {
	if !slices.ContainsFunc(b.unit.Rows, func(row unit.Row) bool {
		acl, ok := row.Model.(*nbdb.ACL)
		return ok && acl.Action == nbdb.ACLActionDrop && acl.Direction == ingressSide.direction
	}) {
		return
	}
	group := PodGroupKey(b.subject)
	for before := range tier {
		b.add(group, ingressSide, nbdb.ACL{UUID: unit.UUID(nbdb.ACLTable, fmt.Sprintf("%s %s pass %d", b.unit.Key, group, before)),
			Action: nbdb.ACLActionPass, Tier: before, Match: ovnexpr.IP().String()}, fmt.Sprintf("pass to tier %d", before+1))
	}
}

// track enables connection tracking where nothing is allowed. Without it, northd would not track connections, and
// isolation would also drop replies on connections from others and neighbour discovery.
func (b *policyBuilder) track() {
	if !slices.ContainsFunc(b.unit.Rows, func(row unit.Row) bool {
		acl, ok := row.Model.(*nbdb.ACL)
		return ok && acl.Action == nbdb.ACLActionAllowRelated
	}) {
		b.addACL(ingressSide, nbdb.ACL{Action: nbdb.ACLActionAllowRelated, Tier: trackingTier, Priority: trackingACL},
			ovnexpr.IP(), "tracking")
	}
}

// addRule adds the ACLs of a rule. A named port that the subject defines has a rule of its own for the pods that have
// it, because OVN ignores a whole match that names a group without ports on the switch.
func (b *policyBuilder) addRule(side policySide, acl nbdb.ACL, rule facts.PolicyRule) {
	acl.Log = true
	for _, part := range partsOf(rule) {
		b.addPart(side, acl, part)
	}
}

// networksInACL is how many networks one ACL matches. ovn-controller compares each network of a match with all others, and attaches no
// pod meanwhile.
const networksInACL = 256

// partsOf divides a rule whose peers are many networks. Only the first part has the other peers.
func partsOf(rule facts.PolicyRule) (parts []facts.PolicyRule) {
	networks := rule.Networks()
	if len(networks) <= networksInACL {
		return []facts.PolicyRule{rule}
	}
	peers := slices.Clone(rule.Peers)
	for i := range peers {
		peers[i].Networks = nil
	}
	for chunk := range slices.Chunk(networks, networksInACL) {
		rule.Peers = append(peers, facts.PolicyPeer{Networks: chunk})
		parts, peers = append(parts, rule), nil
	}
	return parts
}

func (b *policyBuilder) addPart(side policySide, acl nbdb.ACL, rule facts.PolicyRule) {
	if match := b.match(side, rule); !match.IsZero() {
		b.addACL(side, acl, match, rule.Text)
	}
	if side.text != ingressSide.text {
		return
	}
	for _, port := range rule.Named {
		if match := onlyIf(peersOf(rule, side), ovnexpr.ToPorts(portsOf(port))); !match.IsZero() {
			b.addTo(PodGroupKey(b.subject.WithPort(port)), side, acl, match, rule.Text)
		}
	}
}

func (b *policyBuilder) addACL(side policySide, acl nbdb.ACL, match ovnexpr.Match, text string) {
	b.addTo(PodGroupKey(b.subject), side, acl, match, text)
}

// addTo adds an ACL to a group. An ACL with Log is logged if logging is enabled.
func (b *policyBuilder) addTo(group unit.Key, side policySide, acl nbdb.ACL, match ovnexpr.Match, text string) {
	acl.Match = ovnexpr.And(side.subject(podGroupName(group)), match).String()
	acl.UUID = unit.UUID(nbdb.ACLTable, fmt.Sprintf("%s %s %d %s", b.unit.Key, side.direction, acl.Priority, acl.Match))
	if slices.ContainsFunc(b.unit.Rows, func(row unit.Row) bool {
		have, ok := row.Model.(*nbdb.ACL)
		return ok && have.UUID == acl.UUID
	}) {
		return // another rule has the same match
	}
	b.add(group, side, acl, text)
}

// add adds an ACL with its match to a group.
func (b *policyBuilder) add(group unit.Key, side policySide, acl nbdb.ACL, text string) {
	if b.network != "" {
		text += " on " + b.network
	}
	acl.Direction, acl.Options, acl.ExternalIDs = side.direction, side.options, map[string]string{RuleKey: text}
	name := b.name(text)
	acl.Name = &name
	if acl.Log {
		acl.Log = false
		addMeter(&b.unit, logACL(b.logging, b.unit.Key, text, &acl))
	}
	b.unit.Rows = append(b.unit.Rows, unit.Row{Model: &acl})
	b.unit.Members = append(b.unit.Members, unit.Membership{Parent: podGroupRef(group), Column: "acls", Element: acl.UUID})
}

// match returns what a rule adds to the match of its direction, without named ports for ingress. An empty match
// matches no packet.
func (b *policyBuilder) match(side policySide, rule facts.PolicyRule) ovnexpr.Match {
	var all []ovnexpr.Match
	switch {
	case rule.AllPorts:
		all = append(all, onlyIf(peersOf(rule, side), ovnexpr.IP()))
	case len(rule.Ports) > 0:
		all = append(all, onlyIf(peersOf(rule, side), ovnexpr.ToPorts(rule.Ports...)))
	}
	if side.text == egressSide.text {
		for _, port := range rule.Named {
			all = append(all, onlyIf(peersWith(rule, port), ovnexpr.ToPorts(portsOf(port))))
		}
	}
	return ovnexpr.Or(all...)
}

// peerMatch matches any peer, some peers or no peer.
type peerMatch struct {
	anybody bool
	some    ovnexpr.Match
}

// onlyIf combines a match with that of peers.
func onlyIf(peers peerMatch, match ovnexpr.Match) ovnexpr.Match {
	switch {
	case peers.anybody:
		return match
	case peers.some.IsZero():
		return ovnexpr.Match{}
	case match == ovnexpr.IP(): // an address match implies the family
		return peers.some
	}
	return ovnexpr.And(peers.some, match)
}

func peersOf(r facts.PolicyRule, side policySide) peerMatch {
	if r.Anybody {
		return peerMatch{anybody: true}
	}
	var all []ovnexpr.Match
	for _, peer := range r.Peers {
		if peer.Pods != nil {
			all = append(all, setsOf(side.peer, *peer.Pods))
		}
		for _, name := range peer.Domains {
			all = append(all, ovnexpr.Sets(side.peer, addressSetName(DNSKey(name), families[0]), addressSetName(DNSKey(name), families[1])))
		}
	}
	return peerMatch{some: ovnexpr.Or(append(all, ovnexpr.Networks(side.peer, r.Networks()...))...)}
}

// peersWith returns the destinations that have a named port. They are pods, even if the rule names networks or no
// peers.
func peersWith(r facts.PolicyRule, port facts.NamedPort) peerMatch {
	all := setsOf(ovnexpr.Destination, facts.AllPods().On(r.Network).WithPort(port))
	if r.Anybody {
		return peerMatch{some: all}
	}
	var some []ovnexpr.Match
	for _, peer := range r.Peers {
		if peer.Pods != nil {
			some = append(some, setsOf(ovnexpr.Destination, peer.Pods.WithPort(port)))
		}
	}
	if networks := r.Networks(); len(networks) > 0 {
		some = append(some, ovnexpr.And(ovnexpr.Networks(ovnexpr.Destination, networks...), all))
	}
	return peerMatch{some: ovnexpr.Or(some...)}
}

func setsOf(side ovnexpr.Side, pods facts.PodSelector) ovnexpr.Match {
	key := PodSetKey(pods)
	return ovnexpr.Sets(side, addressSetName(key, families[0]), addressSetName(key, families[1]))
}

// NetworkPolicySelectors returns the groups and sets that the policy's ACLs name, by their units.
func NetworkPolicySelectors(p facts.NetworkPolicy) map[unit.Key]facts.PodSelector {
	all := map[unit.Key]facts.PodSelector{PodGroupKey(p.Subject): p.Subject}
	group := func(s facts.PodSelector) { all[PodGroupKey(s)] = s }
	set := func(s facts.PodSelector) { all[PodSetKey(s)] = s }
	for _, rules := range []*facts.PolicyRules{p.Ingress, p.Egress} {
		if rules == nil {
			continue
		}
		for _, rule := range rules.Rules {
			addSelectors(rule, p.Subject, rules == p.Ingress, group, set)
		}
	}
	return all
}

func addSelectors(r facts.PolicyRule, subject facts.PodSelector, ingress bool, group, set func(facts.PodSelector)) {
	plain := r.AllPorts || len(r.Ports) > 0
	for _, peer := range r.Peers {
		if peer.Pods != nil && (plain || ingress && len(r.Named) > 0) {
			set(*peer.Pods)
		}
	}
	for _, port := range r.Named {
		if ingress {
			group(subject.WithPort(port))
			continue
		}
		if r.Anybody || len(r.Networks()) > 0 {
			set(facts.AllPods().On(r.Network).WithPort(port))
		}
		for _, peer := range r.Peers {
			if peer.Pods != nil {
				set(peer.Pods.WithPort(port))
			}
		}
	}
}

func portsOf(p facts.NamedPort) ovnexpr.Ports {
	return ovnexpr.Ports{Protocol: strings.ToLower(string(p.Protocol)), First: p.Number, Last: p.Number}
}
