package agent

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/weft-network/weft/pkg/agent/openflow"
	"github.com/weft-network/weft/pkg/names"
	"github.com/weft-network/weft/pkg/unixctl"
)

// RulePackets is how many packets a rule has decided on this node since ovn-controller gave it its meter.
type RulePackets struct {
	// Kind is the policy's unit's, such as networkpolicy; Namespace is empty for policies of the cluster.
	Kind, Namespace, Name string
	Rule, Verdict         string
	Packets               uint64
}

// CountRules counts what the rules decided that are logged: ovn-controller, with the run directory controllerDir, knows their meters' numbers, and
// ovs-vswitchd, with switchDir, what came to each.
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

// rulesOf reads lines of "name: number", and leaves out what are no rules' meters.
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
