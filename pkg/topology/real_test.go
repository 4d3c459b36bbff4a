package topology_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"

	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/northbound"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/unit"
)

// TestTraces loads each golden into real databases with ovn-northd and compares ovn-trace's output with the expected
// traces.
func TestTraces(t *testing.T) {
	for _, g := range goldens(t) {
		t.Run(g.name, func(t *testing.T) {
			central := ovndbtest.StartCentral(t)
			addChassis(central, g.units)
			e := engine(t, central.NB)
			for _, u := range g.units {
				settle(t, e, u)
			}
			central.Sync()
			checkTunnelKeys(t, central, g)
			checkRemotes(t, central)
			checkLog(t, central)
			for _, line := range lines(g.file("trace.txt")) {
				checkTrace(t, central, line)
				if slices.Contains(decidesConnections, g.name) && !strings.Contains(line, "ct=est") {
					checkOpen(t, central, line)
				}
			}
		})
	}
}

// decidesConnections are the goldens whose traces are decisions of policies about new connections.
var decidesConnections = []string{"networkpolicy", "multinetworkpolicy", "clusterpolicy", "egressfirewall"}

// checkOpen checks a line about a new connection for a connection that was open when the policies were created: for its next packet,
// and for the packets after a denied packet (ct_mark.blocked), which OVN would allow where no ACL matches.
func checkOpen(t *testing.T, central *ovndbtest.Central, line string) {
	t.Helper()
	parts := strings.SplitN(strings.ReplaceAll(line, "ct=new ", ""), " | ", 3)
	for _, blocked := range []string{"0", "1"} {
		checkTrace(t, central, parts[0]+" | ct=est ct=est ct=est "+parts[1]+" && ct_mark.blocked=="+blocked+" | "+parts[2])
	}
}

// checkTrace checks one line: "<datapath> | <microflow> | <text that the output contains>", or "no:<text>" for text that
// it must not contain. The state in connection tracking may precede the microflow: "ct=est,rpl ct=new ".
func checkTrace(t *testing.T, central *ovndbtest.Central, line string) {
	t.Helper()
	parts := strings.SplitN(line, " | ", 3)
	if len(parts) != 3 {
		t.Fatalf("trace.txt: %q is not datapath | microflow | text", line)
	}
	var states []string
	microflow := parts[1]
	for strings.HasPrefix(microflow, "ct=") {
		state, rest, _ := strings.Cut(strings.TrimPrefix(microflow, "ct="), " ")
		states, microflow = append(states, state), rest
	}
	got := central.Trace(parts[0], microflow, states...)
	want, none := strings.CutPrefix(strings.TrimSpace(parts[2]), "no:")
	if strings.Contains(got, want) == none {
		t.Errorf("%s\ngave\n%s", line, got)
	}
}

// checkTunnelKeys asserts that northd gave every port and datapath the requested key.
func checkTunnelKeys(t *testing.T, central *ovndbtest.Central, g golden) {
	t.Helper()
	for _, line := range lines(central.SB.Ctl("--bare", "--format=csv", "--no-headings",
		"--columns=logical_port,tunnel_key,options", "list", "Port_Binding")) {
		fields := strings.SplitN(line, ",", 3)
		if !strings.Contains(fields[2]+" ", "requested-tnl-key="+fields[1]+" ") && fields[1] != "" &&
			!strings.Contains(fields[2], "peer=") {
			t.Errorf("port %s has key %s, options %s", fields[0], fields[1], fields[2])
		}
	}
	keys := lines(central.SB.Ctl("--bare", "--no-headings", "--columns=tunnel_key", "list", "Datapath_Binding"))
	for name, key := range requestedKeys(g.units) {
		if !slices.Contains(keys, key) {
			t.Errorf("datapath keys are %v, without %s of %s", keys, key, name)
		}
	}
}

// requestedKeys returns the tunnel keys that the units' switches and routers request, by name.
func requestedKeys(units []unit.Unit) map[string]string {
	keys := map[string]string{}
	for _, u := range units {
		for _, row := range u.Rows {
			name, options := "", map[string]string{}
			switch m := row.Model.(type) {
			case *nbdb.LogicalSwitch:
				name, options = m.Name, m.OtherConfig
			case *nbdb.LogicalRouter:
				name, options = m.Name, m.Options
			}
			if key := options["requested-tnl-key"]; key != "" {
				keys[name] = key
			}
		}
	}
	return keys
}

// addChassis adds the chassis that ports request, as the nodes' ovn-controllers do, and weft-ovn for nodes elsewhere.
func addChassis(central *ovndbtest.Central, units []unit.Unit) {
	added := map[string]bool{}
	for _, u := range units {
		for _, row := range u.Rows {
			port, ok := row.Model.(*nbdb.LogicalSwitchPort)
			if !ok || port.Options["requested-chassis"] == "" || added[port.Options["requested-chassis"]] {
				continue
			}
			name := port.Options["requested-chassis"]
			added[name] = true
			central.SB.Ctl("chassis-add", name, "geneve", fmt.Sprintf("192.0.2.%d", len(added)), "--", "set", "Chassis", name,
				fmt.Sprintf("other_config:is-remote=%t", port.Type == "remote"))
		}
	}
}

// checkRemotes asserts that northd bound the ports of nodes elsewhere to their chassis, so that packets leave by the tunnel to the node.
func checkRemotes(t *testing.T, central *ovndbtest.Central) {
	t.Helper()
	for _, line := range lines(central.SB.Ctl("--bare", "--format=csv", "--no-headings", "--columns=logical_port,chassis,requested_chassis",
		"find", "Port_Binding", "type=remote")) {
		if fields := strings.Split(line, ","); fields[1] == "" || fields[1] != fields[2] {
			t.Errorf("port %s is bound to chassis %q, want %q", fields[0], fields[1], fields[2])
		}
	}
}

// checkLog asserts that northd accepted every row without a warning.
func checkLog(t *testing.T, central *ovndbtest.Central) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(central.NorthdControl()), "ovn-northd.log"))
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 0 {
		t.Errorf("ovn-northd has warned:\n%s", text)
	}
}

func lines(text string) []string {
	return slices.DeleteFunc(strings.Split(text, "\n"), func(l string) bool {
		return strings.TrimSpace(l) == "" || strings.HasPrefix(l, "#")
	})
}

func engine(t *testing.T, nb *ovndbtest.Server) *ovndb.Engine {
	t.Helper()
	e := ovndb.NewEngine(ovndb.Config{Schema: northbound.Schema(), Endpoints: []string{nb.Endpoint()}, Log: testr.New(t)}, nil)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	ovndbtest.Await(t, e, "the connection", e.Connected)
	return e
}

// settle applies a unit. The unit may wait for a parent row.
func settle(t *testing.T, e *ovndb.Engine, u unit.Unit) {
	t.Helper()
	if err := apply(t, e, u); err != nil && !ovndb.IsPending(err) {
		t.Fatal(err)
	}
}

func apply(t *testing.T, e *ovndb.Engine, u unit.Unit) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return e.Apply(ctx, u)
}

// TestOrderDoesNotMatter applies each golden in different orders. The database must be the same, UUIDs included.
func TestOrderDoesNotMatter(t *testing.T) {
	orders := map[string]func(units []unit.Unit) []unit.Unit{
		"reversed": func(units []unit.Unit) []unit.Unit {
			reversed := slices.Clone(units)
			slices.Reverse(reversed)
			return reversed
		},
		"twice": func(units []unit.Unit) []unit.Unit { return append(slices.Clone(units), units...) },
		"with empty states between": func(units []unit.Unit) []unit.Unit {
			var all []unit.Unit
			for _, u := range units {
				all = append(all, u, unit.Unit{Key: u.Key}, u)
			}
			return append(all, units...)
		},
		"deleted in order, made in reverse": func(units []unit.Unit) []unit.Unit {
			all := slices.Clone(units)
			for _, u := range units {
				all = append(all, unit.Unit{Key: u.Key})
			}
			for _, u := range slices.Backward(units) {
				all = append(all, u)
			}
			return all
		},
	}
	for _, g := range goldens(t) {
		want := content(t, g.units, g.units)
		for name, order := range orders {
			t.Run(g.name+"/"+name, func(t *testing.T) {
				if diff := cmp.Diff(want, content(t, g.units, order(g.units))); diff != "" {
					t.Errorf("the database differs (-in order +%s):\n%s", name, diff)
				}
			})
		}
	}
}

// content applies a sequence and returns the database as text, without the row whose UUID the server chose.
func content(t *testing.T, all, sequence []unit.Unit) string {
	t.Helper()
	nb := ovndbtest.Start(t, "ovn-nb")
	e := engine(t, nb)
	for _, u := range sequence {
		// A row with references cannot be deleted. Its reconciler would retry; here a later unit of the sequence
		// retries.
		if err := apply(t, e, u); err != nil && !ovndb.IsPending(err) && !errors.As(err, new(*ovndb.RejectedError)) {
			t.Fatal(err)
		}
	}
	// A headless service has no rows, and a node without a connection to the outside only elements.
	wanting := slices.DeleteFunc(slices.Clone(all), func(u unit.Unit) bool { return len(u.Rows) == 0 })
	ovndbtest.Await(t, e, "every unit", func() bool {
		owners, _ := e.Owners()
		return len(owners) == len(wanting)
	})
	for _, u := range all { // a unit that was woken is written once more only if it differs
		settle(t, e, u)
	}
	var text strings.Builder
	for _, table := range []string{"Logical_Switch", "Logical_Switch_Port", "Logical_Router", "Logical_Router_Port",
		"Load_Balancer", "Load_Balancer_Group",
		"Logical_Router_Static_Route", "Logical_Router_Policy", "NAT", "Chassis_Template_Var", "Port_Group", "ACL", "QoS",
		"Address_Set"} {
		rows := lines(nb.Ctl("--format=csv", "--no-headings", "list", table))
		slices.Sort(rows)
		text.WriteString(table + "\n" + strings.Join(rows, "\n") + "\n")
	}
	return text.String()
}
