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
	"github.com/weft-network/weft/pkg/names"
)

// healTime bounds how long a row of ours may be as somebody else left it.
const healTime = time.Second

// TestHealUnderASecond damages the port of a running pod while another pings it: the database is as it was within a second, by the
// dates that its server gives to the two commits; the packets that were lost are counted; and the drift is told in the metric, an event
// and ClusterNetwork's status.
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
		owner string // of the difference that is told
		table string
		do    func()
	}{
		{"the port is deleted", "pod/e2e/heal-1", "Logical_Switch_Port", func() { nbctl("lsp-del", portOf(here)) }},
		{"its addresses are others", "pod/e2e/heal-1", "Logical_Switch_Port", func() { nbctl("lsp-set-addresses", portOf(here), "0a:58:00:00:00:63 10.244.0.99") }},
		{"it is taken off its switch", "pod/e2e/heal-1", "Logical_Switch_Port", func() {
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
				t.Logf("healed after %s; of %d pings to %s, one each 20 ms, %d were lost", milliseconds(took), r.Sent, r.To, r.Lost)
			}
			if took > healTime {
				t.Errorf("healed after %s, want at most %s", milliseconds(took), healTime)
			}
			bed.awaitConsistent(t)
			if now := repaired(t, damage.table); now <= repairs {
				t.Errorf("the metric counts %v repairs of %s as before", now, damage.table)
			}
			eventually(t, convergence, func() error { return driftTold(t, total, damage.owner, damage.table) })
			eventually(t, convergence, func() error { return eventTold(t, "DriftRepaired") })
		})
	}
}

// portsOf lists the ports of a switch with their names and addresses; nothing while the switch is absent.
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
	Comment    string          `json:"_comment"` // Weft's own have none
	Switch     json.RawMessage `json:"Logical_Switch"`
	SwitchPort json.RawMessage `json:"Logical_Switch_Port"`
}

// committed are the records from a place in the file on, and its size now.
type committed struct {
	records []commit
	size    int64
}

// commits reads the server's file, which has each commit on a line behind one with its checksum.
func commits(t *testing.T, from int64) (found committed) {
	t.Helper()
	file := bed.northboundFile()
	text := bed.mustExec(t, file.machine, "tail", "-c", fmt.Sprint("+", from+1), file.path) // which counts from 1
	found.size = from + int64(len(text))
	for line := range strings.Lines(text) {
		var c commit
		if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &c) == nil && c.Date > 0 {
			found.records = append(found.records, c)
		}
	}
	return found
}

// healed is the time from the commit of ovn-nbctl to the last of Weft that touches switches and their ports.
func healed(t *testing.T, records []commit) time.Duration {
	t.Helper()
	var damaged, repaired int64
	for _, c := range records {
		switch {
		case strings.HasPrefix(c.Comment, "ovn-nbctl"):
			damaged = c.Date
		case c.Comment == "" && damaged > 0 && (c.Switch != nil || c.SwitchPort != nil):
			repaired = c.Date
		}
	}
	if damaged == 0 || repaired < damaged {
		t.Fatalf("no repair follows the damage among %d commits", len(records))
	}
	return time.Duration(repaired-damaged) * time.Millisecond
}

// repaired is the metric of the operator.
func repaired(t *testing.T, table string) float64 {
	t.Helper()
	p, err := bed.pod(t.Context(), operator, "")
	must(t, err)
	samples, err := bed.scrape(t.Context(), p, operatorMetrics)
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

// driftTold is nil when ClusterNetwork's status counts more differences than before, none that stands, and names the owner's.
func driftTold(t *testing.T, before int64, owner, table string) error {
	now := drifts(t)
	if now.Total <= before || now.Standing != 0 {
		return fmt.Errorf("status.drift counts %d differences, %d before, and %d that stand", now.Total, before, now.Standing)
	}
	for _, item := range now.Items {
		if item.Owner == owner && item.Table == table && item.State == networkv1alpha1.DriftRepaired {
			return nil
		}
	}
	return fmt.Errorf("status.drift does not speak of %s in %s: %+v", owner, table, now.Items)
}

// eventTold is nil when there is an event of the ClusterNetwork with the reason.
func eventTold(t *testing.T, reason string) error {
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
