package trace

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// Result is the answer to a question.
type Result string

// The results. A rejected packet is dropped, and its sender gets an answer that says so.
const (
	Allowed  Result = "allowed"
	Dropped  Result = "dropped"
	Rejected Result = "rejected"
	Unknown  Result = "unknown"
)

// Verdict is a result with the object that decides.
type Verdict struct {
	Result Result `json:"result"`
	// By is the object that decides. It is zero for packets on which no object decides.
	By Object `json:"by,omitzero"`
	// Also are other objects that decide the same about the same packets.
	Also []Object `json:"also,omitempty"`
	// Why says it in words, without the result.
	Why string `json:"why,omitempty"`
}

// Isolation is the end of the rule of an ACL that isolates pods.
const Isolation = "isolation"

// Object names a Kubernetes object.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Rule is the position or the text of the rule, as in the log of decisions.
	Rule string `json:"rule,omitempty"`
}

// String is the object's kind and name: "NetworkPolicy demo/web".
func (o Object) String() string {
	if o.Namespace != "" {
		return o.Kind + " " + o.Namespace + "/" + o.Name
	}
	return o.Kind + " " + o.Name
}

// kinds are the kinds of the objects of units.
var kinds = map[string]string{
	topology.KindNetworkPolicy: "NetworkPolicy", topology.KindMultiNetworkPolicy: "MultiNetworkPolicy",
	topology.KindClusterNetworkPolicy: "ClusterNetworkPolicy", topology.KindAdminNetworkPolicy: "AdminNetworkPolicy",
	topology.KindBaselineAdminNetworkPolicy: "BaselineAdminNetworkPolicy", topology.KindEgressFirewall: "EgressFirewall",
	topology.KindEgressQoS: "EgressQoS", topology.KindMulticast: "Namespace",
	topology.KindEgressIP: "EgressIP", topology.KindEgressService: "Service",
	topology.KindService: "Service", topology.KindPod: "Pod", topology.KindNode: "Node",
	topology.KindGateway: "NodeNetwork", topology.KindNetwork: "ClusterNetwork",
	topology.KindTransit: "ClusterNetwork", topology.KindTransitNode: "NodeNetwork",
}

// foreignRow is the kind of objects for rows that are not Weft's.
const foreignRow = "foreign row"

// objectOf returns the object of a row. A row of others is named by its table.
func objectOf(r Row) Object {
	kind, known := kinds[r.Owner.Kind()]
	if !known {
		return Object{Kind: foreignRow, Name: strings.TrimSpace(r.Table + " " + r.Name), Rule: r.Rule}
	}
	o := Object{Kind: kind, Name: r.Owner.Name(), Rule: r.Rule}
	if namespace, name, ok := strings.Cut(o.Name, "/"); ok {
		o.Namespace, o.Name = namespace, name
	}
	return o
}

// judge holds what a verdict is about.
type judge struct {
	Question
	leg  Leg
	rows map[string]Row
	// silent are the routers outside that do not answer BFD on the sender's node.
	silent []netip.Addr
	Trace
}

// verdictOn returns the verdict on a leg with its path.
func verdictOn(q Question, leg Leg, p path) Verdict {
	switch {
	case p.unknown != "":
		return Verdict{Result: Unknown, Why: p.where() + ": " + p.unknown}
	case p.missing != "" && len(p.crossings) > 0:
		return Verdict{Result: Unknown, Why: fmt.Sprintf("%s: the southbound database there has no port %s", p.where(), p.missing)}
	case p.missing != "":
		return missing(q, p.missing)
	}
	return judge{q, leg, p.rows, p.silent, p.Trace}.verdict()
}

// missing says that a port is not in the southbound database.
func missing(q Question, port string) Verdict {
	v := Verdict{Result: Dropped, Why: fmt.Sprintf("the southbound database has no port %s", port)}
	if namespace, pod, ok := names.ParsePodPort(port); ok {
		v.By = Object{Kind: "Pod", Namespace: namespace, Name: pod}
		v.Why += fmt.Sprintf(": kubectl weft why %s/%s shows what the pod waits for", namespace, pod)
	}
	return v
}

func (j judge) verdict() Verdict {
	if j.Refusal != "" {
		return j.refused()
	}
	if j.Reaches(j.leg.Arrives...) && j.leg.Lost != "" {
		return Verdict{Result: Dropped, Why: j.leg.Lost}
	}
	if j.Reaches(j.leg.Arrives...) {
		return j.allowed()
	}
	if b := j.To.Balanced; b != nil && b.hostPort != nil && j.leg.Packet.Backend != "" && !translates(j.Trace) && !j.byACL() {
		return j.unmapped(b.hostPort)
	}
	if len(j.Outputs) > 0 {
		return Verdict{Result: Unknown, Why: fmt.Sprintf("the packet leaves OVN at port %s, which is not on the way to %s",
			j.Outputs[0].Port, j.To.Text(""))}
	}
	return j.dropped()
}

// byACL reports whether the packet ends at an ACL.
func (j judge) byACL() bool {
	return len(j.Outputs) == 0 && strings.Contains(j.Steps[len(j.Steps)-1].Stage, "_acl_")
}

// unmapped is about a packet to a host port that OVN does not lead to the pod, so that the host itself answers.
func (j judge) unmapped(to *hostPort) Verdict {
	by := Object{Kind: "Pod", Namespace: to.pod.Namespace, Name: to.pod.Name}
	return Verdict{Result: Unknown, By: by, Why: fmt.Sprintf("host port %s/%d of %s is not mapped at %s of node %s, so the host itself "+
		"answers: see the pod's condition HostPortsReady", j.Protocol.Text(), j.Port, by, j.leg.Packet.Destination, j.To.Node)}
}

// allowed names the last policy that decided.
func (j judge) allowed() Verdict {
	v := Verdict{Result: Allowed}
	for _, s := range j.Steps {
		if row, ok := j.rows[s.Flow]; ok && decides(s) && kinds[row.Owner.Kind()] != "" && !followsOnly(row) {
			v.By = objectOf(row)
		}
	}
	if v.By.Name != "" && v.By.Rule != "" {
		v.Why = fmt.Sprintf("%s allows it by %s", v.By, v.By.Rule)
	}
	if j.pastService() {
		return j.past(v)
	}
	if silent := j.silentRouters(); len(silent) > 0 {
		v = silent[0].unanswered(silent)
	}
	return v
}

// past is about a packet that leaves although it is to a service, which does not have the port. Nobody else has an address that Weft
// has assigned.
func (j judge) past(v Verdict) Verdict {
	if j.To.Balanced.Ours {
		return Verdict{Result: Dropped, By: j.To.object(), Why: j.Question.noPort()}
	}
	v.Why = j.Question.noPort() + ", so the packet leaves the cluster as to any address"
	return v
}

// silentRouters returns the sender's routers of the packet's family if all of them are silent, so that the packet leaves by the next hop
// of the node. It is nil for packets that leave with another source address than the pod's.
func (j judge) silentRouters() (routers []Router) {
	source, _ := j.Seen()
	if source != "" || j.leg.Packet.Watches == "" || !j.Reaches(j.localnets()...) {
		return nil
	}
	for _, r := range j.From.Routers {
		if r.Address.Is6() != j.V6 {
			continue
		}
		if !r.BFD || !slices.Contains(j.silent, r.Address) {
			return nil
		}
		routers = append(routers, r)
	}
	return routers
}

// localnets are the ports by which packets leave to the network outside.
func (j judge) localnets() (ports []string) {
	for _, o := range j.Outputs {
		if o.Type == "localnet" {
			ports = append(ports, o.Port)
		}
	}
	return ports
}

// unanswered is the verdict on a packet that none of its routers takes.
func (r Router) unanswered(all []Router) Verdict {
	v := Verdict{Result: Unknown, By: Object{Kind: "ExternalRoute", Name: r.Route}}
	var addresses []string
	for _, router := range all {
		addresses = append(addresses, router.Address.String())
	}
	v.Why = fmt.Sprintf("%s: the next hop %s is down, because it does not answer BFD. The packet leaves by the node's next hop, with "+
		"the pod's own address, which routers outside may not know", v.By, strings.Join(addresses, " and "))
	return v
}

// followsOnly reports whether an ACL only makes conntrack follow connections, or passes packets on to where its policies decide.
func followsOnly(r Row) bool {
	return r.Rule == "" || slices.ContainsFunc([]string{"tracking", "no rule", "pass to tier "}, func(p string) bool {
		return strings.HasPrefix(r.Rule, p)
	})
}

// The register bits with which an ACL's flow says what it decides (northd, since 23.09).
const (
	bitAllow  = "reg8[16] = 1;"
	bitDrop   = "reg8[17] = 1;"
	bitReject = "reg8[18] = 1;"
)

// decides reports whether a step is an ACL that decides.
func decides(s Step) bool {
	return strings.Contains(s.Stage, "_acl_") && (s.has(bitAllow) || s.has(bitDrop) || s.has(bitReject))
}

// lastDecision returns the last step on which an ACL decided.
func (j judge) lastDecision() (Step, Row) {
	for i := len(j.Steps) - 1; i >= 0; i-- {
		if s := j.Steps[i]; decides(s) {
			return s, j.rows[s.Flow]
		}
	}
	return Step{}, Row{}
}

// refused is about a packet that OVN answers itself.
func (j judge) refused() Verdict {
	last := j.Steps[len(j.Steps)-1]
	if strings.Contains(last.Stage, "_acl_") {
		_, row := j.lastDecision()
		if row.Owner == topology.NetworkKey() { // the refusal of what no balancer took
			return j.noPort()
		}
		o := objectOf(row)
		return Verdict{Result: Rejected, By: o, Why: fmt.Sprintf("%s rejects it by %s", o, o.Rule)}
	}
	if row, ok := j.rows[last.Flow]; ok && row.Table == "Load_Balancer" {
		o := objectOf(row)
		return Verdict{Result: Rejected, By: o, Why: fmt.Sprintf("%s has no endpoint for port %d%s", o, j.Port, j.noCandidates())}
	}
	return Verdict{Result: Rejected, Why: fmt.Sprintf("OVN answers with %s in %s of %s", j.Refusal, last.Stage, last.Datapath)}
}

// noPort is about a packet to a cluster IP at a port that its service does not have.
func (j judge) noPort() Verdict {
	v := Verdict{Result: Rejected, Why: fmt.Sprintf("no load balancer has %s port %d", j.Protocol.Text(), j.Port)}
	if j.To.Kind == Service {
		v.By, v.Why = j.To.object(), j.Question.noPort()
	}
	return v
}

// noPort says that a service does not have the port, and at which address.
func (q Question) noPort() string {
	if q.Protocol == ICMP {
		return fmt.Sprintf("%s does not answer ICMP at %s", q.To.object(), q.To.of(q.V6))
	}
	text := fmt.Sprintf("%s has no %s port %d", q.To.object(), q.Protocol.Text(), q.Port)
	if q.pastService() {
		text += " at " + q.To.of(q.V6).String()
	}
	return text
}

// noCandidates says why a service's endpoints take no connections.
func (j judge) noCandidates() string {
	if j.To.Balanced == nil {
		return ""
	}
	if reasons := j.To.Balanced.Excluded(j.V6, ""); len(reasons) > 0 {
		return ": " + strings.Join(reasons, ", ")
	}
	return ""
}

// dropped is about a packet that ends in OVN.
func (j judge) dropped() Verdict {
	last := j.Steps[len(j.Steps)-1]
	switch {
	case strings.Contains(last.Stage, "_acl_"):
		s, row := j.lastDecision()
		if row.Owner.Kind() == topology.KindService {
			return j.notLocal()
		}
		return j.byPolicy(s, row)
	case strings.Contains(last.Stage, "port_sec"):
		return Verdict{Result: Dropped, By: Object{Kind: "Pod", Namespace: j.From.Namespace, Name: j.From.Name},
			Why: "port security: the sender's MAC or address is not that of its port " + last.Inport}
	case last.Stage == "lr_in_ip_routing":
		if o := objectOf(j.rows[last.Flow]); o.Kind == foreignRow && j.rows[last.Flow].Table != "" {
			return Verdict{Result: Dropped, By: o, Why: fmt.Sprintf("%s discards it on router %s", o, last.Datapath)}
		}
		return j.noRoute(last)
	case last.Stage == "lr_in_policy":
		if row, ok := j.rows[last.Flow]; ok {
			o := objectOf(row)
			if row.Owner.Kind() == topology.KindGateway {
				return j.unbalanced()
			}
			return Verdict{Result: Dropped, By: o, Why: fmt.Sprintf("%s drops it on router %s", o, last.Datapath) + whyDropped(row, o)}
		}
	case last.Stage == "ls_in_l2_unknown", last.Stage == "ls_in_l2_lkup":
		if j.Unresolved {
			return Verdict{Result: Dropped, Why: fmt.Sprintf("no port of the network has the address %s", j.destination())}
		}
		return Verdict{Result: Dropped, Why: fmt.Sprintf("switch %s has no port with the destination's MAC", last.Datapath)}
	}
	return Verdict{Result: Dropped, Why: fmt.Sprintf("OVN drops it in %s of %s, match %s", last.Stage, last.Datapath, last.Match)}
}

// whyDropped says why a policy of a router drops packets.
func whyDropped(row Row, o Object) string {
	switch {
	case o.Kind == kinds[topology.KindEgressIP]:
		return ": no node carries its address; see its condition Assigned"
	case row.Owner == topology.TransitKey():
		return ": it comes from another zone, and no EgressIP of this zone's nodes selects its sender"
	}
	return ""
}

// destination is the address that the packet has at its end.
func (j judge) destination() string {
	if j.leg.Packet.Restore.IsValid() {
		return j.leg.Packet.Restore.String()
	}
	if j.leg.Packet.Backend != "" {
		if backend, err := netip.ParseAddrPort(j.leg.Packet.Backend); err == nil {
			return backend.Addr().String()
		}
	}
	return j.leg.Packet.Destination.String()
}

// noRoute is about a packet that a router discards.
func (j judge) noRoute(last Step) Verdict {
	for _, nowhere := range ipam.Nowhere() {
		if strings.Contains(last.Match, nowhere.String()) {
			return j.notLocal()
		}
	}
	if j.To.Kind == Service && !translates(j.Trace) {
		return j.unbalanced()
	}
	return Verdict{Result: Dropped, Why: fmt.Sprintf("router %s has no route to %s", last.Datapath, j.destination())}
}

// notLocal is about a packet to a service with policy Local from a node without an endpoint.
func (j judge) notLocal() Verdict {
	b := j.To.Balanced
	if b == nil {
		return Verdict{Result: Dropped, Why: "no endpoint on this node, and the service's traffic policy is Local"}
	}
	by := Object{Kind: "Service", Namespace: b.Namespace, Name: b.Name}
	return Verdict{Result: Dropped, By: by, Why: fmt.Sprintf("%s has traffic policy Local, and no ready endpoint is on this node", by)}
}

// unbalanced is about a packet to a service that no load balancer of the node takes, and that a router drops.
func (j judge) unbalanced() Verdict {
	if j.To.Balanced != nil && j.To.Balanced.chooses(j.Question, j.Port) == facts.FromLocal {
		return j.notLocal()
	}
	v := j.noPort()
	v.Result = Dropped
	return v
}

// byPolicy is about a packet that an ACL drops.
func (j judge) byPolicy(s Step, row Row) Verdict {
	if row.Table == "" {
		return Verdict{Result: Dropped, Why: fmt.Sprintf("conntrack calls the packet invalid on switch %s (%s)", s.Datapath, s.Match)}
	}
	v := Verdict{Result: Dropped, By: objectOf(row)}
	subject, peer, side := j.To, j.From, "ingress"
	if !strings.HasPrefix(s.Stage, "ls_out") {
		subject, peer, side = j.From, j.To, "egress"
	}
	if j.leg.Packet.Reply {
		subject, peer = peer, subject
	}
	if subject.Kind != Pod { // a backend
		subject = End{Kind: Pod}
		if port := map[bool]string{true: s.Outport, false: s.Inport}[side == "ingress"]; port != "" {
			subject.Namespace, subject.Name, _ = names.PodOfPort(port)
		}
	}
	ns := v.By.Namespace
	if !strings.HasSuffix(v.By.Rule, Isolation) {
		v.Why = fmt.Sprintf("%s, whose rule %q denies it", v.By, v.By.Rule)
		if v.By.Kind == foreignRow {
			v.Why = fmt.Sprintf("%s, which is not Weft's", v.By)
		}
		return v
	}
	port := ""
	if j.leg.Packet.DestinationPort != 0 {
		port = fmt.Sprintf(" %s port %d", j.Protocol.Text(), j.targetPort())
	}
	all := slices.Sorted(slices.Values(append([]unit.Key{row.Owner}, row.Also...)))
	v.By = objectOf(Row{Owner: all[0], Rule: row.Rule})
	by, isolates := v.By.String(), "which isolates"
	for _, other := range all[1:] {
		v.Also = append(v.Also, objectOf(Row{Owner: other, Rule: row.Rule}))
		by, isolates = by+" and "+v.Also[len(v.Also)-1].String(), "which isolate"
	}
	words := map[string]string{"ingress": "no rule allows %s%s", "egress": "no rule allows it to reach %s%s"}[side]
	from := peer.Text(ns)
	if source, _ := j.Trace.Seen(); source != "" && side == "ingress" && !j.leg.Packet.Reply {
		from += " with the address " + source + "," // which rules see
	}
	v.Why = fmt.Sprintf("%s, %s %s for %s; ", by, isolates, subject.Text(ns), side) + fmt.Sprintf(words, from, port)
	return v
}

// targetPort returns the destination port that policies see, which is the backend's port.
func (j judge) targetPort() uint16 {
	if backend, err := netip.ParseAddrPort(j.leg.Packet.Backend); err == nil {
		return backend.Port()
	}
	return j.leg.Packet.DestinationPort
}

// Line is the verdict as one line: "dropped by NetworkPolicy demo/deny-all, which isolates ...".
func (v Verdict) Line() string {
	by := v.By.String()
	if rest, ok := strings.CutPrefix(v.Why, by); ok && v.Result != Allowed &&
		(strings.HasPrefix(rest, ",") || strings.HasPrefix(rest, " and ")) {
		return string(v.Result) + " by " + v.Why
	}
	if v.Why == "" {
		return string(v.Result)
	}
	return string(v.Result) + ": " + v.Why
}
