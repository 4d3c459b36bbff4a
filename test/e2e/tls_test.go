//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weft-network/weft/pkg/ports"
	"github.com/weft-network/weft/test/lab"
)

// TestNodesReachOnlyWhatTheyAreFor uses a node's two key pairs, ovn-controller's and the agent's, as an intruder on
// the node could. Each attempt must be refused with the message of the component that is meant to refuse it.
func TestNodesReachOnlyWhatTheyAreFor(t *testing.T) {
	node, keys := lab.Node(1), keysOf(t, lab.Node(1))
	controller, agent := keys.controller, keys.agent
	sbctl := func(flags []string, remote string, args ...string) []string {
		return slices.Concat([]string{"ovn-sbctl", "--timeout=10", "--no-leader-only", "--db=" + remote}, flags, args)
	}
	list := func(flags []string, remote string) []string {
		return slices.Concat([]string{"ovsdb-client", "--timeout=10"}, flags, []string{"list-dbs", remote})
	}
	plain := func(remote string) string { return "tcp:" + strings.TrimPrefix(remote, "ssl:") }

	for name, argv := range map[string][]string{
		"the northbound database, by the operator's key": list(keys.operator, keys.northbound),
		"the southbound database, by the chassis' key":   list(controller, keys.southbound),
		"the southbound database, by the agent's key":    list(agent, keys.reader),
		"its own chassis":            sbctl(controller, keys.southbound, "set", "Chassis", node.Name, "other_config:e2e=1"),
		"its own chassis, as it was": sbctl(controller, keys.southbound, "remove", "Chassis", node.Name, "other_config", "e2e"),
		"what the agent reads":       sbctl(agent, keys.reader, "list", "Chassis"),
	} {
		if _, err := bed.Exec(t.Context(), node.Name, argv...); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// With the value that is there, ovn-sbctl would send nothing.
	for name, c := range map[string]struct {
		argv []string
		says string
	}{
		"the northbound database, by the chassis' key": {list(controller, keys.northbound), "failed to connect"},
		"the northbound database, by the agent's key":  {list(agent, keys.northbound), "failed to connect"},
		"the northbound database, without TLS":         {list(nil, plain(keys.northbound)), ""},
		"the southbound database, without TLS":         {list(nil, plain(keys.southbound)), ""},
		"the readers' listener, without TLS":           {list(nil, plain(keys.reader)), ""},
		"a write at the readers' listener": {sbctl(agent, keys.reader, "set", "Chassis", node.Name,
			"other_config:e2e=2"), "not allowed"},
		"the same by the chassis' key": {sbctl(controller, keys.reader, "set", "Chassis", node.Name,
			"other_config:e2e=2"), "not allowed"},
		"another node's chassis": {sbctl(controller, keys.southbound, "set", "Chassis", "n2",
			"other_config:e2e=2"), "permission error"},
		"another node's chassis, destroyed": {sbctl(controller, keys.southbound, "destroy", "Chassis",
			"n2"), "permission error"},
		"a logical flow": {sbctl(controller, keys.southbound, "--all", "destroy",
			"Logical_Flow"), "permission error"},
		"a port's addresses": {sbctl(controller, keys.southbound, "set", "Port_Binding",
			"k8s-n2", "mac=unknown"), "permission error"},
		"a chassis by the agent's key": {sbctl(agent, keys.southbound, "set", "Chassis", node.Name,
			"other_config:e2e=2"), "permission error"},
	} {
		if out, err := bed.Exec(t.Context(), node.Name, c.argv...); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %q, %v, want it refused: %s", name, out, err, c.says)
		}
	}
}

// keys holds the TLS flags of programs on a node, and the addresses of OVN's databases.
type keys struct {
	controller, agent, operator    []string
	northbound, southbound, reader string
}

// keysOf returns the lab's keys, or the product's in a bare lab.
func keysOf(t *testing.T, node lab.Machine) keys {
	t.Helper()
	if !bed.bare {
		return keys{bed.ControllerTLS(node), bed.AgentTLS(), bed.OperatorTLS(), lab.Northbound, lab.Southbound, lab.SouthboundReader}
	}
	pair := func(secret string) []string { return tlsFlags(secretFiles(t, secret)) }
	const chassis = "/run/weft/identity/chassis-current.pem" // certificate and key
	_, _, ca := secretFiles(t, "weft-sb-tls")
	at := func(port int) string {
		return fmt.Sprint("ssl:", netip.AddrPortFrom(bed.ofNode(bed.central).Addresses[0], uint16(port)))
	}
	return keys{tlsFlags(chassis, chassis, ca), pair("weft-sb-tls"), pair("weft-nb-tls"),
		at(ports.Northbound), at(ports.Southbound), at(ports.SouthboundReader)}
}

func tlsFlags(key, certificate, ca string) []string {
	return []string{"--private-key=" + key, "--certificate=" + certificate, "--ca-cert=" + ca}
}

// secretFiles writes a key pair of the product to a folder that the nodes see.
func secretFiles(t *testing.T, name string) (key, certificate, ca string) {
	t.Helper()
	var secret corev1.Secret
	must(t, bed.api.Get(t.Context(), types.NamespacedName{Namespace: product, Name: name}, &secret))
	file := func(key string) string {
		path := filepath.Join(bed.peerDir, name+"-"+key)
		must(t, os.WriteFile(path, secret.Data[key], 0o600))
		return path
	}
	return file("tls.key"), file("tls.crt"), file("ca.crt")
}
