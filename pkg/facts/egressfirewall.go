package facts

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
)

// EgressFirewall holds the facts for topology.EgressFirewallUnit.
type EgressFirewall struct {
	Namespace string
	// Clusters are the networks of pods, which no rule applies to.
	Clusters []netip.Prefix
	// Rules are in order. The first matching rule decides.
	Rules []EgressRule
	// Logging selects what is logged and counted.
	Logging networkv1alpha1.ACLLogging
}

// EgressRule is a rule of a firewall.
type EgressRule struct {
	Deny bool
	// Networks are the destinations of the rule, or DNSName is their name in canonical form, or Nodes selects the nodes
	// that are. If all are empty, the rule applies to all destinations.
	Networks []netip.Prefix
	DNSName  string
	Nodes    labels.Selector
	// Ports are the ports that the rule applies to. Empty means all ports and all protocols.
	Ports []ovnexpr.Ports
	// Text is the rule in its author's notation.
	Text string
}

// ParseEgressFirewall reads an EgressFirewall. clusters are the networks of pods. An unreadable rule is an error that
// names its field, and the firewall then denies everything, because the intent of the rest is uncertain.
func ParseEgressFirewall(firewall *networkv1alpha1.EgressFirewall, clusters []netip.Prefix) (EgressFirewall, error) {
	facts := EgressFirewall{Namespace: firewall.Namespace, Clusters: clusters}
	var wrong []error
	for i := range firewall.Spec.Egress {
		rule, err := parseEgressRule(&firewall.Spec.Egress[i])
		if err != nil {
			wrong = append(wrong, fmt.Errorf("spec.egress[%d].%w", i, err))
		}
		facts.Rules = append(facts.Rules, rule)
	}
	if len(wrong) > 0 {
		facts.Rules = []EgressRule{{Deny: true, Text: "Deny everything: the firewall cannot be read"}}
	}
	return facts, errors.Join(wrong...)
}

func parseEgressRule(rule *networkv1alpha1.EgressFirewallRule) (EgressRule, error) {
	parsed, text := EgressRule{}, ""
	switch rule.Type {
	case networkv1alpha1.EgressFirewallAllow:
	case networkv1alpha1.EgressFirewallDeny:
		parsed.Deny = true
	default:
		return parsed, fmt.Errorf("type: %q is not Allow or Deny", rule.Type)
	}
	switch to := rule.To; {
	case to.CIDRSelector != "":
		network, err := netip.ParsePrefix(to.CIDRSelector)
		if err != nil || network != network.Masked() {
			return parsed, fmt.Errorf("to.cidrSelector: %q is not a CIDR without host bits", to.CIDRSelector)
		}
		parsed.Networks, text = []netip.Prefix{network}, "cidrSelector "+network.String()
	case to.DNSName != "":
		name := CanonicalName(to.DNSName)
		parsed.DNSName, text = name, "dnsName "+name
	case to.NodeSelector != nil:
		selector, err := metav1.LabelSelectorAsSelector(to.NodeSelector)
		if err != nil {
			return parsed, fmt.Errorf("to.nodeSelector: %w", err)
		}
		parsed.Nodes, text = selector, "nodeSelector "+cmp.Or(selector.String(), "{}")
	default:
		return parsed, errors.New("to: one of cidrSelector, dnsName and nodeSelector is needed")
	}
	ports, err := parseEgressPorts(rule.Ports)
	parsed.Ports, parsed.Text = ports, strings.Join(append([]string{string(rule.Type), text}, textOfPorts(rule.Ports)...), " ")
	return parsed, err
}

func parseEgressPorts(ports []networkv1alpha1.EgressFirewallPort) (parsed []ovnexpr.Ports, err error) {
	const highest = 65535
	for i, p := range ports {
		last := max(p.Port, p.EndPort)
		switch {
		case p.Protocol != corev1.ProtocolTCP && p.Protocol != corev1.ProtocolUDP && p.Protocol != corev1.ProtocolSCTP:
			return nil, fmt.Errorf("ports[%d].protocol: %q is not TCP, UDP or SCTP", i, p.Protocol)
		case p.Port < 0, last > highest:
			return nil, fmt.Errorf("ports[%d].port: not in 1..%d", i, highest)
		case p.EndPort != 0 && (p.Port == 0 || p.EndPort < p.Port):
			return nil, fmt.Errorf("ports[%d].endPort: needs a port that is not above it", i)
		}
		parsed = append(parsed, ovnexpr.Ports{Protocol: strings.ToLower(string(p.Protocol)), First: uint16(p.Port), Last: uint16(last)})
	}
	return parsed, nil
}

func textOfPorts(ports []networkv1alpha1.EgressFirewallPort) (texts []string) {
	for _, p := range ports {
		text := string(p.Protocol)
		if p.Port != 0 {
			text += ":" + strconv.Itoa(int(p.Port))
		}
		if p.EndPort != 0 {
			text += "-" + strconv.Itoa(int(p.EndPort))
		}
		texts = append(texts, text)
	}
	return texts
}

// CanonicalName returns a DNS name in lower case and without a trailing dot.
func CanonicalName(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// IsWildcard reports whether a DNS name has a wildcard: "*.example.com" is all names below example.com.
func IsWildcard(name string) bool { return strings.HasPrefix(name, "*.") }

// CheckDNSName returns an error unless a text is a DNS name of at least two labels, with or without a wildcard before them.
// The CRD has the same rule, but an object may be older than that rule.
func CheckDNSName(name string) error {
	const longestName, longestLabel = 253, 63
	if address, err := netip.ParseAddr(name); err == nil {
		return fmt.Errorf("%s is an IP address, not a DNS name: use cidrSelector %s", name, netip.PrefixFrom(address, address.BitLen()))
	}
	canonical := CanonicalName(name)
	labels := strings.Split(strings.TrimPrefix(canonical, "*."), ".")
	if len(canonical) > longestName || len(labels) < 2 {
		return fmt.Errorf("%q is not a DNS name of two labels or more and at most %d characters", name, longestName)
	}
	for _, label := range labels {
		if len(label) > longestLabel || !isLabel(label) {
			return fmt.Errorf("%q is not a DNS name: its label %q is not 1 to %d letters, digits and inner hyphens",
				name, label, longestLabel)
		}
	}
	if last := labels[len(labels)-1]; isNumber(last) {
		return fmt.Errorf("%q is not a DNS name: its last label is a number, as in an IP address", name)
	}
	return nil
}

const digits = "0123456789"

// isLabel reports whether a text in lower case consists of letters, digits and hyphens, with no hyphen at either end.
func isLabel(label string) bool {
	return label != "" && strings.Trim(label, "abcdefghijklmnopqrstuvwxyz"+digits+"-") == "" &&
		!strings.HasPrefix(label, "-") && !strings.HasSuffix(label, "-")
}

// isNumber reports whether a label in lower case is a number in an address parser's notation: decimal, or hexadecimal
// after 0x.
func isNumber(label string) bool {
	hexadecimal, prefixed := strings.CutPrefix(label, "0x")
	return strings.Trim(label, digits) == "" || prefixed && strings.Trim(hexadecimal, digits+"abcdef") == ""
}

// AddressesOfNodes returns the addresses of the nodes that a selector selects, sorted.
func AddressesOfNodes(selector labels.Selector, nodes []corev1.Node) (addresses []netip.Addr) {
	for i := range nodes {
		if selector.Matches(labels.Set(nodes[i].Labels)) {
			addresses = append(addresses, addressesOfNode(&nodes[i])...)
		}
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	return slices.Compact(addresses)
}

// addressesOfNode returns all addresses that Kubernetes has for a node.
func addressesOfNode(node *corev1.Node) (addresses []netip.Addr) {
	for _, a := range node.Status.Addresses {
		if address, err := netip.ParseAddr(a.Address); err == nil && (a.Type == corev1.NodeInternalIP || a.Type == corev1.NodeExternalIP) {
			addresses = append(addresses, address.Unmap())
		}
	}
	return addresses
}
