package facts

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// EgressQoS holds the facts for topology.EgressQoSUnit.
type EgressQoS struct {
	Namespace string
	// Rules are in order. The first matching rule decides.
	Rules []EgressQoSRule
	// LocalNodes are the nodes in Local mode, sorted.
	LocalNodes []string
}

// EgressQoSRule marks or limits packets.
type EgressQoSRule struct {
	Pods PodSelector
	// To is the packets' destination. The zero value means all destinations.
	To netip.Prefix
	// DSCP is nil if packets keep theirs.
	DSCP *int
	// Rate is the limit in kbit/s, or 0. Burst is in kilobits, or 0 for a default.
	Rate, Burst int
}

// ParseEgressQoS reads an EgressQoS. An unreadable rule is an error that names its field. Then the status has the rules,
// because a packet of the unreadable rule must not fall to a later one.
func ParseEgressQoS(qos *networkv1alpha1.EgressQoS, local []string) (EgressQoS, error) {
	facts := EgressQoS{Namespace: qos.Namespace, LocalNodes: local}
	rules, err := parseEgressQoSRules(qos.Namespace, qos.Spec.Egress)
	if err != nil {
		rules, _ = parseEgressQoSRules(qos.Namespace, qos.Status.Egress) // they were readable
	}
	facts.Rules = rules
	return facts, err
}

func parseEgressQoSRules(namespace string, rules []networkv1alpha1.EgressQoSRule) (parsed []EgressQoSRule, err error) {
	for i := range rules {
		rule, wrong := parseEgressQoSRule(namespace, &rules[i])
		if wrong != nil {
			err = errors.Join(err, fmt.Errorf("spec.egress[%d].%w", i, wrong))
		}
		parsed = append(parsed, rule)
	}
	if err != nil {
		return nil, err
	}
	return parsed, nil
}

func parseEgressQoSRule(namespace string, rule *networkv1alpha1.EgressQoSRule) (EgressQoSRule, error) {
	parsed := EgressQoSRule{Pods: NamespacePods(namespace)}
	if rule.PodSelector != nil {
		selector, err := metav1.LabelSelectorAsSelector(rule.PodSelector)
		if err != nil {
			return parsed, fmt.Errorf("podSelector: %w", err)
		}
		parsed.Pods.Pods = selector
	}
	if rule.DstCIDR != "" {
		network, err := netip.ParsePrefix(rule.DstCIDR)
		if err != nil || network != network.Masked() {
			return parsed, fmt.Errorf("dstCIDR: %q is not a CIDR without host bits", rule.DstCIDR)
		}
		parsed.To = network
	}
	if rule.DSCP == nil && rule.Bandwidth == nil {
		return parsed, errors.New("dscp: dscp, bandwidth or both are needed")
	}
	if err := parsed.parseLimits(rule); err != nil {
		return parsed, err
	}
	return parsed, nil
}

// Limits of OVN's columns: QoS.action:dscp and QoS.bandwidth.
const (
	highestDSCP      = 63
	highestBandwidth = 1<<32 - 1
)

func (r *EgressQoSRule) parseLimits(rule *networkv1alpha1.EgressQoSRule) error {
	if rule.DSCP != nil {
		dscp := int(*rule.DSCP)
		if dscp < 0 || dscp > highestDSCP {
			return fmt.Errorf("dscp: %d is not in 0..%d", dscp, highestDSCP)
		}
		r.DSCP = &dscp
	}
	if limit := rule.Bandwidth; limit != nil {
		if limit.Rate < 1 || limit.Rate > highestBandwidth {
			return fmt.Errorf("bandwidth.rate: %d is not in 1..%d", limit.Rate, int64(highestBandwidth))
		}
		if limit.Burst < 0 || limit.Burst > highestBandwidth {
			return fmt.Errorf("bandwidth.burst: %d is not in 0..%d", limit.Burst, int64(highestBandwidth))
		}
		r.Rate, r.Burst = int(limit.Rate), int(limit.Burst)
	}
	return nil
}

// LocalNodes returns the nodes whose pods' packets leave through the management port, sorted.
func LocalNodes(networks []networkv1alpha1.NodeNetwork) (local []string) {
	for i := range networks {
		if InLocalMode(&networks[i]) {
			local = append(local, networks[i].Name)
		}
	}
	slices.Sort(local)
	return local
}

// InLocalMode reports whether the packets of a node's pods leave through its management port.
func InLocalMode(nn *networkv1alpha1.NodeNetwork) bool {
	return nn.Status.Gateway != nil && nn.Status.Gateway.Mode == networkv1alpha1.GatewayLocal
}
