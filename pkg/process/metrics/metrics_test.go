package metrics

import (
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestCountsByKindAndOutcome(t *testing.T) {
	m := NewOperator(prometheus.NewRegistry())
	m.Connected("OVN_Northbound", true)
	if got := testutil.ToFloat64(m.transactions.WithLabelValues("OVN_Northbound", "write", "committed")); got != 0 {
		t.Errorf("%v writes before any", got)
	}
	m.Transaction("OVN_Northbound", "write", 3, nil)
	m.Transaction("OVN_Northbound", "write", 5, errors.New("refused"))
	m.Transaction("OVN_Northbound", "fence", 1, nil)
	for labels, want := range map[[2]string]float64{{"write", "committed"}: 1, {"write", "failed"}: 1, {"fence", "committed"}: 1} {
		if got := testutil.ToFloat64(m.transactions.WithLabelValues("OVN_Northbound", labels[0], labels[1])); got != want {
			t.Errorf("%v: %v, want %v", labels, got, want)
		}
	}
	if got := testutil.ToFloat64(m.operations.WithLabelValues("OVN_Northbound", "write")); got != 3 {
		t.Errorf("%v operations, want those of the committed one, 3", got)
	}
	m.Violations("UniqueMAC", 2)
	m.Violations("UniqueMAC", 1)
	if got := testutil.ToFloat64(m.violations.WithLabelValues("UniqueMAC")); got != 1 {
		t.Errorf("%v violations, want those of the last check, 1", got)
	}
}

// A standby is not blind, because it needs no connection. A leader keeps its series, even if an earlier leadership
// gave the database up.
func TestADatabaseThatIsReachedAgainIsNotAway(t *testing.T) {
	m := NewOperator(prometheus.NewRegistry())
	m.Connected("OVN_Northbound", false)
	if got := testutil.ToFloat64(m.connected.WithLabelValues("OVN_Northbound")); got != 0 {
		t.Errorf("%v before the first connection", got)
	}
	m.Reachable("OVN_Northbound")
	if got := testutil.CollectAndCount(m.connected); got != 0 {
		t.Errorf("%d series of a database that responds and is not needed", got)
	}
	m.Connected("OVN_Northbound", true)
	m.Reachable("OVN_Northbound")
	if got := testutil.ToFloat64(m.connected.WithLabelValues("OVN_Northbound")); got != 1 {
		t.Errorf("%v while it is connected", got)
	}
	if got := testutil.ToFloat64(m.transactions.WithLabelValues("OVN_Northbound", "write", "failed")); got != 0 {
		t.Errorf("%v writes failed before any", got)
	}
}

// A program exports the series that it sets, and no zeros of the other program.
func TestProgramsServeTheirOwnAlone(t *testing.T) {
	operator, agent := prometheus.NewRegistry(), prometheus.NewRegistry()
	NewOperator(operator)
	NewAgent(agent, []string{"address"}, []string{"nftables"})
	NewPolicies(agent, func() []Rule { return nil })
	for _, served := range []struct {
		program string
		prometheus.Gatherer
		foreign []string
	}{
		{"an agent", agent, []string{"weft_area_", "weft_nodes", "weft_invariant_", "weft_service_"}},
		{"the operator", operator, []string{"weft_cni_", "weft_policy_"}},
	} {
		families, err := served.Gather()
		if err != nil || len(families) == 0 {
			t.Fatalf("%s: %d metrics: %v", served.program, len(families), err)
		}
		for _, f := range families {
			for _, prefix := range served.foreign {
				if strings.HasPrefix(f.GetName(), prefix) {
					t.Errorf("%s exports %s", served.program, f.GetName())
				}
			}
		}
	}
}
