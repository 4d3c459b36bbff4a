// Package acllog parses ovn-controller's log of ACLs.
//
//	2026-11-22T05:13:13.123Z|00012|acl_log(ovn_pinctrl0)|INFO|name="NP:demo/web:ingress isolation", verdict=drop, severity=warning,
//	  direction=to-lport: tcp,…,nw_src=10.244.1.3,nw_dst=10.244.2.4,…,tp_src=40152,tp_dst=80,tcp_flags=syn
package acllog

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// File is the log file in ovn-controller's run directory.
const File = "acl.log"

// Decision is a rule's decision about a packet.
type Decision struct {
	Time time.Time `json:"time"`
	// Policy and Rule identify what decided, such as "NetworkPolicy demo/web" and "ingress[0]". A long name is cut at
	// its end.
	Policy string `json:"policy,omitempty"`
	Rule   string `json:"rule"`
	// Verdict is allow, pass, drop or reject. Severity is the severity of the log.
	Verdict  string `json:"verdict"`
	Severity string `json:"severity"`
	// Ingress means that the decision was made where the packet reaches a pod, and not where it leaves one.
	Ingress bool `json:"ingress"`
	// Protocol is the protocol of the flow: tcp, udp, sctp, icmp, icmp6 or ip. Ports are 0 for protocols without
	// ports.
	Protocol        string     `json:"protocol"`
	Source          netip.Addr `json:"source"`
	Destination     netip.Addr `json:"destination"`
	SourcePort      uint16     `json:"sourcePort,omitempty"`
	DestinationPort uint16     `json:"destinationPort,omitempty"`
}

// Key is the key of a Decision in a line of the agent's log.
const Key = "decision"

// kinds maps the prefixes of ACLs' names to kinds of policies.
var kinds = map[string]string{"NP": "NetworkPolicy", "MNP": "MultiNetworkPolicy", "CNP": "ClusterNetworkPolicy",
	"ANP": "AdminNetworkPolicy", "BANP": "BaselineAdminNetworkPolicy", "EF": "EgressFirewall"}

// Parse parses a line of the log. The error names the missing part.
func Parse(line string) (Decision, error) {
	parts := strings.SplitN(line, "|", 5)
	if len(parts) != 5 || !strings.HasPrefix(parts[2], "acl_log") {
		return Decision{}, fmt.Errorf("not a line of acl_log: %.200q", line)
	}
	at, err := time.Parse(time.RFC3339, parts[0])
	if err != nil {
		return Decision{}, fmt.Errorf("acl_log: %w", err)
	}
	name, rest, ok := strings.Cut(strings.TrimPrefix(parts[4], `name="`), `", verdict=`)
	head, flow, ok2 := strings.Cut(rest, ": ")
	if !ok || !ok2 {
		return Decision{}, fmt.Errorf("acl_log: name, verdict or packet is missing: %.200q", parts[4])
	}
	d := Decision{Time: at}
	d.Policy, d.Rule = policyOf(name)
	fields := fieldsOf("verdict="+head, ", ")
	d.Verdict, d.Severity, d.Ingress = fields["verdict"], fields["severity"], fields["direction"] == "to-lport"
	return d, d.setPacket(flow)
}

// policyOf parses "NP:demo/web:ingress[0]". Any other name is returned as the rule.
func policyOf(name string) (policy, rule string) {
	kind, rest, ok := strings.Cut(name, ":")
	if !ok || kinds[kind] == "" {
		return "", name
	}
	object, rule, _ := strings.Cut(rest, ":")
	return kinds[kind] + " " + object, rule
}

func fieldsOf(text, separator string) map[string]string {
	fields := map[string]string{}
	for part := range strings.SplitSeq(text, separator) {
		key, value, _ := strings.Cut(part, "=")
		fields[key] = value
	}
	return fields
}

// setPacket parses a flow. Its first word is the protocol.
func (d *Decision) setPacket(flow string) (err error) {
	d.Protocol, _, _ = strings.Cut(flow, ",")
	fields := fieldsOf(flow, ",")
	source, destination := fields["nw_src"], fields["nw_dst"]
	if source == "" {
		source, destination = fields["ipv6_src"], fields["ipv6_dst"]
	}
	if d.Source, err = netip.ParseAddr(source); err != nil {
		return fmt.Errorf("acl_log: source of %.200q: %w", flow, err)
	}
	if d.Destination, err = netip.ParseAddr(destination); err != nil {
		return fmt.Errorf("acl_log: destination of %.200q: %w", flow, err)
	}
	if d.Protocol != "icmp6" { // "tcp6", "ipv6"
		d.Protocol = strings.TrimSuffix(strings.TrimSuffix(d.Protocol, "6"), "v")
	}
	d.SourcePort, d.DestinationPort = port(fields["tp_src"]), port(fields["tp_dst"])
	return nil
}

func port(text string) uint16 {
	number, _ := strconv.ParseUint(text, 10, 16)
	return uint16(number)
}

// Words returns the verdict in words.
func (d Decision) Words() string {
	switch d.Verdict {
	case "drop":
		return "dropped"
	case "reject":
		return "rejected"
	case "pass":
		return "let pass"
	}
	return "allowed"
}

// OnNetwork reports whether the packet was on a Network. Its addresses may be other pods' on the cluster network.
func (d Decision) OnNetwork() bool { return strings.HasPrefix(d.Policy, kinds["MNP"]+" ") }

// Text returns the decision as a sentence: "NetworkPolicy demo/web ingress[0] dropped TCP demo/a → demo/web-1:80".
// name returns the owner of an address on the cluster network, or "".
func (d Decision) Text(name func(netip.Addr) string) string {
	who := func(a netip.Addr) string {
		if known := name(a); known != "" && !d.OnNetwork() {
			return known
		}
		return a.String()
	}
	to := who(d.Destination)
	if d.DestinationPort != 0 {
		if to == d.Destination.String() {
			to = netip.AddrPortFrom(d.Destination, d.DestinationPort).String()
		} else {
			to = fmt.Sprintf("%s:%d", to, d.DestinationPort)
		}
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s %s %s → %s", d.Policy, d.Rule, d.Words(),
		strings.ToUpper(d.Protocol), who(d.Source), to))
}
