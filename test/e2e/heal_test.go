//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ports"
)

// healTime bounds how long a foreign change to a Weft row may last.
const healTime = time.Second

// TestHealUnderASecond damages the port of a running pod while another pod pings it. The database is restored within
// a second, measured by the server's timestamps of the two commits. The lost packets are counted. The metric, an
// event and ClusterNetwork's status report the drift.
func TestHealUnderASecond(t *testing.T) {
	here, there := bed.peerPod("heal-1", "n1"), bed.peerPod("heal-2", "n2")
	bed.run(t, here, there)
	bed.awaitConsistent(t)
	nbctl := func(argv ...string) {
		bed.mustExec(t, bed.central, append([]string{"ovn-nbctl", "--timeout=10"}, argv...)...)
	}
	before := portsOf(t, names.NodeSwitch("n1"))
	for _, damage := range []struct {
		name  string
		owner string // of the reported difference
		table string
		do    func()
	}{
		{"the port is deleted", "pod/e2e/heal-1", "Logical_Switch_Port", func() { nbctl("lsp-del", portOf(here)) }},
		{"its addresses are changed", "pod/e2e/heal-1", "Logical_Switch_Port", func() {
			nbctl("lsp-set-addresses", portOf(here), "0a:58:00:00:00:63 10.244.0.99")
		}},
		{"it is removed from its switch", "pod/e2e/heal-1", "Logical_Switch_Port", func() {
			nbctl("remove", "Logical_Switch", names.NodeSwitch("n1"), "ports", portRow(t, here).uuid("_uuid"))
		}},
		{"the whole switch is deleted", "node/n1", "Logical_Switch", func() { nbctl("ls-del", names.NodeSwitch("n1")) }},
	} {
		t.Run(damage.name, func(t *testing.T) {
			repairs, total := repaired(t, damage.table), drifts(t).Total
			traffic := startPings(t, there, here)
			mark := commits(t, 0).size
			damage.do()
			eventually(t, convergence, func() error {
				return same("ports of n1", slices.Clone(before), portsOf(t, names.NodeSwitch("n1")))
			})
			took := healed(t, commits(t, mark).records)
			eventually(t, convergence, func() error { return bed.reachEachOther(t.Context(), here, there) })
			for _, r := range traffic.stop(t) {
				t.Logf("healed after %s; of %d pings to %s, sent every 20 ms, %d were lost", milliseconds(took), r.Sent, r.To, r.Lost)
			}
			if took > healTime {
				t.Errorf("healed after %s, want at most %s", milliseconds(took), healTime)
			}
			bed.awaitConsistent(t)
			if now := repaired(t, damage.table); now <= repairs {
				t.Errorf("the metric still counts %v repairs of %s", now, damage.table)
			}
			eventually(t, convergence, func() error { return driftReported(t, total, damage.owner, damage.table) })
			eventually(t, convergence, func() error { return eventRecorded(t, "DriftRepaired") })
		})
	}
}

// portsOf lists a switch's ports with their names and addresses. It returns an empty list while the switch is
// absent.
func portsOf(t *testing.T, name string) []string {
	t.Helper()
	switches, err := bed.rows(t.Context(), bed.central, "ovn-nbctl", "Logical_Switch", "name,ports")
	must(t, err)
	ports, err := bed.ports(t.Context())
	must(t, err)
	var found []string
	for _, s := range switches {
		for port, r := range ports {
			if s.text("name") == name && strings.Contains(fmt.Sprint(s["ports"]), r.uuid("_uuid")) {
				found = append(found, fmt.Sprint(port, " ", r["addresses"]))
			}
		}
	}
	return found
}

// commit is a record of the northbound database's file.
type commit struct {
	Date       int64           `json:"_date"`    // ms since 1970
	Comment    string          `json:"_comment"` // names the writer
	Switch     json.RawMessage `json:"Logical_Switch"`
	SwitchPort json.RawMessage `json:"Logical_Switch_Port"`
}

// committed holds the records after an offset of the file, and the file's size.
type committed struct {
	records []commit
	size    int64
}

// commits reads the server's file. Each commit is a line that follows a line with its checksum.
func commits(t *testing.T, from int64) (found committed) {
	t.Helper()
	file := bed.northboundFile()
	text := bed.mustExec(t, file.machine, "tail", "-c", fmt.Sprint("+", from+1), file.path) // tail counts from 1
	found.size = from + int64(len(text))
	for line := range strings.Lines(text) {
		var c commit
		if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &c) == nil && c.Date > 0 {
			found.records = append(found.records, c)
		}
	}
	return found
}

// healed returns the time from the commit of ovn-nbctl to Weft's last commit that touches switches and their ports.
func healed(t *testing.T, records []commit) time.Duration {
	t.Helper()
	var damaged, repaired int64
	for _, c := range records {
		switch {
		case strings.HasPrefix(c.Comment, "ovn-nbctl"):
			damaged = c.Date
		case strings.HasPrefix(c.Comment, "weft ") && damaged > 0 && (c.Switch != nil || c.SwitchPort != nil):
			repaired = c.Date
		}
	}
	if damaged == 0 || repaired < damaged {
		t.Fatalf("no repair follows the damage among %d commits", len(records))
	}
	return time.Duration(repaired-damaged) * time.Millisecond
}

// repaired reads the operator's metric of repaired differences.
func repaired(t *testing.T, table string) float64 {
	t.Helper()
	p, err := bed.pod(t.Context(), operator, "")
	must(t, err)
	samples, err := bed.scrape(t.Context(), p, ports.OperatorMetrics)
	must(t, err)
	return samples.sum("weft_ovsdb_drift_total", `database="OVN_Northbound"`, fmt.Sprintf("table=%q", table), `state="Repaired"`)
}

func drifts(t *testing.T) networkv1alpha1.DriftStatus {
	t.Helper()
	var cn networkv1alpha1.ClusterNetwork
	must(t, bed.api.Get(t.Context(), types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, &cn))
	if cn.Status.Drift == nil {
		return networkv1alpha1.DriftStatus{}
	}
	return *cn.Status.Drift
}

// driftReported returns nil if ClusterNetwork's status counts more differences than before, no standing difference,
// and names the owner.
func driftReported(t *testing.T, before int64, owner, table string) error {
	now := drifts(t)
	if now.Total <= before || now.Standing != 0 {
		return fmt.Errorf("status.drift counts %d differences (%d before) and %d standing", now.Total, before, now.Standing)
	}
	for _, item := range now.Items {
		if item.Owner == owner && item.Table == table && item.State == networkv1alpha1.DriftRepaired {
			return nil
		}
	}
	return fmt.Errorf("status.drift does not name %s in %s: %+v", owner, table, now.Items)
}

// eventRecorded returns nil if the ClusterNetwork has an event with the reason.
func eventRecorded(t *testing.T, reason string) error {
	var list eventsv1.EventList
	if err := bed.api.List(t.Context(), &list, client.InNamespace(corev1.NamespaceDefault)); err != nil {
		return err
	}
	var reasons []string
	for _, e := range list.Items {
		if e.Regarding.Kind == "ClusterNetwork" && e.Reason == reason {
			return nil
		}
		reasons = append(reasons, e.Reason)
	}
	return fmt.Errorf("no event %s among %s", reason, strings.Join(reasons, ", "))
}
