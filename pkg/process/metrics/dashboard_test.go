package metrics

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// grafana is the folder of the dashboards.
const grafana = "../../../config/grafana/"

// drawing says how the dashboards draw a metric of the catalogue. The query follows from the metric's kind.
type drawing struct {
	metric, title string
	// by are the labels of a line. Lines without labels have the name legend.
	by     []string
	legend string
	// where are matchers of labels.
	where string
	// over is the window of a counter or a histogram. A counter is drawn as its rate, with events as its increase.
	over   string
	events bool
	// quantile of a histogram.
	quantile string
	unit     string // of Grafana
}

// overview are the panels of the whole network.
var overview = []drawing{
	{metric: "weft_area_state", title: "Areas (0 OK, 1 progressing, 2 degraded, 3 unavailable)", by: []string{"area"}},
	{metric: "weft_objects_waiting", title: "Objects that wait for too long", by: []string{"kind", "type", "reason"}},
	{metric: "weft_workload_pods_missing", title: "Missing pods of Weft's workloads", by: []string{"kind", "name"}},
	{metric: "weft_nodes", title: "Nodes", by: []string{"state"}},
	{metric: "weft_loadbalancer_addresses", title: "Addresses of load balancers", by: []string{"pool", "state"}},
	{metric: "weft_bgp_sessions", title: "BGP sessions", by: []string{"peer", "state"}},
	{metric: "weft_bgp_bfd_sessions", title: "BFD sessions of BGP", by: []string{"peer", "state"}},
	{metric: "weft_ovsdb_connected", title: "Connected databases", by: []string{"instance", "database"}},
	{metric: "weft_ovsdb_transactions_total", title: "Transactions", by: []string{"database", "kind", "outcome"}, over: "5m", unit: "ops"},
	{metric: "weft_ovsdb_operations_total", title: "Operations", by: []string{"database", "kind"}, over: "5m", unit: "ops"},
	{metric: "weft_ovsdb_drift_total", title: "Drift", by: []string{"database", "table", "state"}, over: "15m", events: true},
	{metric: "weft_invariant_violations", title: "Invariants violated", by: []string{"invariant"}},
	{metric: "weft_cni_request_duration_seconds", title: "ADD, 99th percentile", legend: "ADD", where: `command="ADD"`, over: "5m",
		quantile: "0.99", unit: "s"},
	{metric: "weft_cni_stage_seconds", title: "Stages of ADD, 99th percentile", by: []string{"stage"}, over: "5m", quantile: "0.99",
		unit: "s"},
	{metric: "weft_cni_stage_failures_total", title: "ADDs that failed", by: []string{"stage"}, over: "10m", events: true},
	{metric: "weft_cni_failing_interfaces", title: "Broken interfaces", by: []string{"instance"}},
	{metric: "weft_cni_collected_total", title: "Interfaces removed without a DEL", by: []string{"reason"}, over: "1h", events: true},
	{metric: "weft_agent_repairs_total", title: "Repairs of what another program changed", by: []string{"object"}, over: "1h", events: true},
	{metric: "weft_service_programming_seconds", title: "Services: to the database, 99th percentile", legend: "programmed", over: "15m",
		quantile: "0.99", unit: "s"},
	{metric: "weft_service_propagation_seconds", title: "Services: to every chassis, 90th percentile", legend: "propagated", over: "30m",
		quantile: "0.9", unit: "s"},
	{metric: "weft_host_service_programming_seconds", title: "Services: to the hosts, 99th percentile", legend: "programmed", over: "15m",
		quantile: "0.99", unit: "s"},
	{metric: "weft_host_services_synced_timestamp_seconds", title: "Hosts' last write of services", by: []string{"instance"},
		unit: "dateTimeFromNow"},
	{metric: "weft_policy_packets_total", title: "Denied by policies that are logged", by: []string{"kind", "namespace", "name", "rule"},
		where: `verdict="drop"`, over: "5m", unit: "pps"},
	{metric: "weft_api_request_duration_seconds", title: "API of addresses: 99th percentile", by: []string{"operation"}, over: "5m",
		quantile: "0.99", unit: "s"},
}

// chosen selects the node of the dashboard of nodes.
const chosen = `instance=~"$instance"`

// perNode are the panels of chosen nodes' agents.
var perNode = []drawing{
	{metric: "weft_ovsdb_connected", title: "Connected databases", by: []string{"instance", "database"}, where: chosen},
	{metric: "weft_ovsdb_transactions_total", title: "Transactions", by: []string{"instance", "database", "outcome"}, where: chosen,
		over: "5m", unit: "ops"},
	{metric: "weft_ovsdb_operations_total", title: "Operations", by: []string{"instance", "database"}, where: chosen, over: "5m",
		unit: "ops"},
	{metric: "weft_ovsdb_drift_total", title: "Drift", by: []string{"instance", "table", "state"}, where: chosen, over: "15m", events: true},
	{metric: "weft_cni_request_duration_seconds", title: "CNI requests, 99th percentile", by: []string{"instance", "command"}, where: chosen,
		over: "5m", quantile: "0.99", unit: "s"},
	{metric: "weft_cni_stage_seconds", title: "Stages of ADD, 99th percentile", by: []string{"instance", "stage"}, where: chosen, over: "5m",
		quantile: "0.99", unit: "s"},
	{metric: "weft_cni_stage_failures_total", title: "ADDs that failed", by: []string{"instance", "stage"}, where: chosen, over: "10m",
		events: true},
	{metric: "weft_cni_failing_interfaces", title: "Broken interfaces", by: []string{"instance"}, where: chosen},
	{metric: "weft_cni_collected_total", title: "Interfaces removed without a DEL", by: []string{"instance", "reason"}, where: chosen,
		over: "1h", events: true},
	{metric: "weft_agent_repairs_total", title: "Repairs of what another program changed", by: []string{"instance", "object"}, where: chosen,
		over: "1h", events: true},
	{metric: "weft_host_service_programming_seconds", title: "Services: to the host, 99th percentile", by: []string{"instance"},
		where: chosen, over: "15m", quantile: "0.99", unit: "s"},
	{metric: "weft_host_services_synced_timestamp_seconds", title: "Last write of services", by: []string{"instance"}, where: chosen,
		unit: "dateTimeFromNow"},
	{metric: "weft_policy_packets_total", title: "Decisions of policies that are logged", by: []string{"instance", "verdict"}, where: chosen,
		over: "5m", unit: "pps"},
}

// expr is the query of a drawing.
func (d drawing) expr(m metric) string {
	name, by := m.name, d.by
	if m.kind == "histogram" {
		name, by = name+"_bucket", append([]string{"le"}, by...)
	}
	selected, grouped := name, ""
	if d.where != "" {
		selected += "{" + d.where + "}"
	}
	if len(by) > 0 {
		grouped = " by (" + strings.Join(by, ", ") + ")"
	}
	switch {
	case m.kind == "gauge" && d.unit == "dateTimeFromNow":
		return fmt.Sprintf("max%s (%s) * 1000", grouped, selected) // Grafana's times are in milliseconds
	case m.kind == "gauge":
		return fmt.Sprintf("max%s (%s)", grouped, selected)
	case m.kind == "histogram":
		return fmt.Sprintf("histogram_quantile(%s, sum%s (rate(%s[%s])))", d.quantile, grouped, selected, d.over)
	case d.events:
		return fmt.Sprintf("sum%s (increase(%s[%s]))", grouped, selected, d.over)
	}
	return fmt.Sprintf("sum%s (rate(%s[%s]))", grouped, selected, d.over)
}

// object is a value of JSON.
type object = map[string]any

// panel is the panel of a drawing. Panels are in two columns.
func (d drawing) panel(at int, m metric) object {
	const height, width = 8, 12
	legend := d.legend
	for _, label := range d.by {
		legend += " {{" + label + "}}"
	}
	source := object{"type": "prometheus", "uid": "${datasource}"}
	unit := d.unit
	if unit == "" {
		unit = "short"
	}
	return object{"id": at + 1, "title": d.title, "description": m.help, "type": "timeseries", "datasource": source,
		"gridPos":     object{"h": height, "w": width, "x": at % 2 * width, "y": at / 2 * height},
		"fieldConfig": object{"defaults": object{"unit": unit, "min": 0}, "overrides": []any{}},
		"targets":     []any{object{"refId": "A", "datasource": source, "expr": d.expr(m), "legendFormat": strings.TrimSpace(legend)}}}
}

// dashboard generates a dashboard. A drawing of a metric that no program has fails the test.
func dashboard(t *testing.T, title, uid string, variables []any, drawings []drawing) string {
	t.Helper()
	known := map[string]metric{}
	for _, m := range catalogue() {
		known[m.name] = m
	}
	var panels []any
	for i, d := range drawings {
		m, ok := known[d.metric]
		if !ok {
			t.Errorf("no program exports %s", d.metric)
		}
		panels = append(panels, d.panel(i, m))
	}
	source := object{"name": "datasource", "type": "datasource", "query": "prometheus"}
	text, err := json.MarshalIndent(object{"title": title, "uid": uid, "schemaVersion": 39, "version": 1, "editable": true,
		"time": object{"from": "now-3h", "to": "now"}, "refresh": "1m", "tags": []string{"weft"},
		"templating": object{"list": append([]any{source}, variables...)}, "panels": panels}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}

// config/grafana has the dashboards of the catalogue. -update writes them.
func TestDashboardsAreFresh(t *testing.T) {
	instance := object{"name": "instance", "label": "Agent", "type": "query", "query": "label_values(weft_cni_failing_interfaces, instance)",
		"datasource": object{"type": "prometheus", "uid": "${datasource}"}, "refresh": 2, "includeAll": true, "multi": true, "sort": 1}
	for file, want := range map[string]string{
		"weft.json":      dashboard(t, "Weft", "weft", nil, overview),
		"weft-node.json": dashboard(t, "Weft: nodes", "weft-node", []any{instance}, perNode),
	} {
		if *update {
			if err := os.WriteFile(grafana+file, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if have, err := os.ReadFile(grafana + file); err != nil || string(have) != want {
			t.Errorf("config/grafana/%s is stale (%v): go test ./pkg/process/metrics -run Dashboard -update", file, err)
		}
	}
}

// The overview draws every metric, and the dashboard of nodes every metric of the agent.
func TestDashboardsDrawTheCatalogue(t *testing.T) {
	drawn := func(m metric, drawings []drawing) bool {
		for _, d := range drawings {
			if d.metric == m.name {
				return true
			}
		}
		return false
	}
	for _, m := range catalogue() {
		if !drawn(m, overview) {
			t.Errorf("no panel of the overview draws %s", m.name)
		}
		if strings.Contains(m.program, "agent") && !drawn(m, perNode) {
			t.Errorf("no panel of the nodes draws %s", m.name)
		}
	}
}
