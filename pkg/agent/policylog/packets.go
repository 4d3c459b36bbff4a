package policylog

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/weft-network/weft/pkg/agent/openflow"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/unixctl"
)

// RulePackets is the number of packets that a rule has matched on this node since ovn-controller assigned its meter.
type RulePackets struct {
	// Kind is the kind of the policy's unit, such as networkpolicy. Namespace is empty for cluster-wide policies.
	Kind, Namespace, Name string
	Rule, Verdict         string
	Packets               uint64
}

// CountRules counts the packets that matched logged rules. It reads the meters' numbers from ovn-controller, whose run
// directory is controllerDir, and the meters' packets from ovs-vswitchd, whose run directory is switchDir.
func CountRules(ctx context.Context, controllerDir, switchDir string) ([]RulePackets, error) {
	socket, err := unixctl.Socket(controllerDir, "ovn-controller")
	if err != nil {
		return nil, err
	}
	list, err := unixctl.Call(ctx, socket, "meter-table-list")
	if err != nil {
		return nil, err
	}
	meters, err := rulesOf(list)
	if err != nil || len(meters) == 0 {
		return nil, err
	}
	packets, err := openflow.MeterPackets(ctx, switchDir, names.IntegrationBridge)
	if err != nil {
		return nil, err
	}
	rules := make([]RulePackets, 0, len(meters))
	for number, rule := range meters {
		if count, installed := packets[number]; installed {
			rule.Packets = count
			rules = append(rules, rule)
		}
	}
	return rules, nil
}

// rulesOf parses lines of "name: number" and skips meters that do not belong to a rule.
func rulesOf(list string) (map[uint32]RulePackets, error) {
	rules := map[uint32]RulePackets{}
	for line := range strings.Lines(list) {
		line = strings.TrimSpace(line)
		end := strings.LastIndex(line, ":")
		if end < 0 {
			continue
		}
		owner, verdict, rule, ok := names.ParseRuleMeter(line[:end])
		if !ok {
			continue
		}
		number, err := strconv.ParseUint(strings.TrimSpace(line[end+1:]), 10, 32)
		if err != nil {
			return nil, fmt.Errorf("meter-table-list: %q: %w", line, err)
		}
		counted := RulePackets{Verdict: verdict, Rule: rule}
		counted.Kind, counted.Name, _ = strings.Cut(owner, "/")
		if namespace, name, ok := strings.Cut(counted.Name, "/"); ok {
			counted.Namespace, counted.Name = namespace, name
		}
		rules[uint32(number)] = counted
	}
	return rules, nil
}
