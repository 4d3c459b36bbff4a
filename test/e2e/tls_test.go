//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/weft-network/weft/test/lab"
)

// A node has two key pairs, ovn-controller's and the agent's; somebody on it has no more. Each of his attempts must be refused, and in the
// words of who is meant to refuse it.
func TestNodesReachOnlyWhatTheyAreFor(t *testing.T) {
	node := lab.Node(1)
	controller, agent := bed.ControllerTLS(node), bed.AgentTLS()
	sbctl := func(flags []string, remote string, args ...string) []string {
		return slices.Concat([]string{"ovn-sbctl", "--timeout=10", "--no-leader-only", "--db=" + remote}, flags, args)
	}
	list := func(flags []string, remote string) []string {
		return slices.Concat([]string{"ovsdb-client", "--timeout=10"}, flags, []string{"list-dbs", remote})
	}
	plain := func(remote string) string { return "tcp:" + strings.TrimPrefix(remote, "ssl:") }

	for name, argv := range map[string][]string{
		"the northbound database, by the operator's key": list(bed.OperatorTLS(), lab.Northbound),
		"the southbound database, by the chassis' key":   list(controller, lab.Southbound),
		"the southbound database, by the agent's key":    list(agent, lab.SouthboundReader),
		"its own chassis":            sbctl(controller, lab.Southbound, "set", "Chassis", node.Name, "other_config:e2e=1"),
		"its own chassis, as it was": sbctl(controller, lab.Southbound, "remove", "Chassis", node.Name, "other_config", "e2e"),
		"what the agent reads":       sbctl(agent, lab.SouthboundReader, "list", "Chassis"),
	} {
		if _, err := bed.Exec(t.Context(), node.Name, argv...); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, c := range map[string]struct {
		argv []string
		says string
	}{
		"the northbound database, by the chassis' key": {list(controller, lab.Northbound), "failed to connect"},
		"the northbound database, by the agent's key":  {list(agent, lab.Northbound), "failed to connect"},
		"the northbound database, without TLS":         {list(nil, plain(lab.Northbound)), ""},
		"the southbound database, without TLS":         {list(nil, plain(lab.Southbound)), ""},
		"the readers' listener, without TLS":           {list(nil, plain(lab.SouthboundReader)), ""},
		"a write at the readers' listener":             {sbctl(agent, lab.SouthboundReader, "set", "Chassis", node.Name, "other_config:e2e=1"), "not allowed"},
		"the same by the chassis' key":                 {sbctl(controller, lab.SouthboundReader, "set", "Chassis", node.Name, "other_config:e2e=1"), "not allowed"},
		"another's chassis":                            {sbctl(controller, lab.Southbound, "set", "Chassis", "n2", "other_config:e2e=1"), "permission error"},
		"no chassis of another":                        {sbctl(controller, lab.Southbound, "destroy", "Chassis", "n2"), "permission error"},
		"a logical flow":                               {sbctl(controller, lab.Southbound, "--all", "destroy", "Logical_Flow"), "permission error"},
		"a port's addresses":                           {sbctl(controller, lab.Southbound, "set", "Port_Binding", "k8s-n2", "mac=unknown"), "permission error"},
		"a chassis by the agent's key":                 {sbctl(agent, lab.Southbound, "set", "Chassis", node.Name, "other_config:e2e=1"), "permission error"},
	} {
		if out, err := bed.Exec(t.Context(), node.Name, c.argv...); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %q, %v, want it refused: %s", name, out, err, c.says)
		}
	}
}
