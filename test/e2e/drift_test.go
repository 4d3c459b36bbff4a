//go:build e2e

package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weft-network/weft/pkg/ovn/names"
)

// TestDriftIsHealed changes Weft's rows and links behind its back. All of them are restored, and packets pass again.
func TestDriftIsHealed(t *testing.T) {
	here, there := bed.peerPod("drift-1", "n1"), bed.peerPod("drift-2", "n2")
	bed.run(t, here, there)
	nbctl := func(argv ...string) {
		bed.mustExec(t, bed.central, append([]string{"ovn-nbctl", "--timeout=10"}, argv...)...)
	}
	for _, drift := range []struct {
		name string
		make func()
	}{
		{"a port without port security", func() { nbctl("clear", "Logical_Switch_Port", portOf(here), "port_security") }},
		{"a port with another address", func() { nbctl("lsp-set-addresses", portOf(here), "0a:58:00:00:00:63 10.244.0.99") }},
		{"no port", func() { nbctl("lsp-del", portOf(here)) }},
		{"a missing router port", func() { nbctl("lrp-del", names.RouterToSwitch("n1")) }},
		{"an interface missing in Open vSwitch", func() {
			bed.mustExec(t, "n1", "ovs-vsctl", "--timeout=10", "del-port", names.IntegrationBridge, linkOf(t, here))
		}},
		{"a management port without addresses", func() {
			bed.mustExec(t, "n1", "ip", "address", "flush", "dev", names.ManagementInterface)
		}},
		{"missing routes to the pods", func() { // 84 is Weft's own protocol number
			bed.mustExec(t, "n1", "ip", "-4", "route", "flush", "dev", names.ManagementInterface, "proto", "84")
			bed.mustExec(t, "n1", "ip", "-6", "route", "flush", "dev", names.ManagementInterface, "proto", "84")
		}},
	} {
		t.Run(drift.name, func(t *testing.T) {
			before := portRow(t, here)
			drift.make()
			took := eventually(t, convergence, func() error {
				if err := bed.reachEachOther(t.Context(), here, there); err != nil {
					return err
				}
				return bed.hostReach(t.Context(), "n1", here, there)
			})
			bed.awaitConsistent(t)
			after := portRow(t, here)
			for _, column := range []string{"addresses", "port_security"} {
				if after.text(column) != before.text(column) {
					t.Errorf("the port's %s are %q, before %q", column, after.text(column), before.text(column))
				}
			}
			t.Logf("healed after %s", milliseconds(took))
		})
	}
}

// linkOf returns the host's end of a pod's link.
func linkOf(t *testing.T, p *corev1.Pod) string {
	t.Helper()
	rows, err := bed.rows(t.Context(), p.Spec.NodeName, "ovs-vsctl", "Interface", "name,external_ids")
	must(t, err)
	for _, r := range rows {
		if r.pairs("external_ids")["iface-id"] == portOf(p) {
			return r.text("name")
		}
	}
	t.Fatalf("pod %s has no interface in Open vSwitch", p.Name)
	return ""
}
