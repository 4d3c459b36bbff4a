package invariant

import (
	"fmt"
	"strconv"

	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/sbdb"
)

// requestedTunnelKey is the option that requests a key from northd (ovn-nb(5)).
const requestedTunnelKey = "requested-tnl-key"

// The largest tunnel keys (ovn-sb(5)). The smallest is 1.
const (
	maxPortKey     = 32767 // larger keys are multicast groups
	maxDatapathKey = 1<<24 - 2
)

// keyInvariants returns the invariants of tunnel keys.
func keyInvariants() []Invariant {
	return []Invariant{
		{"TunnelKeyInRange", "Every requested tunnel key is in its range.", tunnelKeyInRange},
		{"UniqueTunnelKey", "No two datapaths, and no two ports of one, request one key.", uniqueTunnelKey},
		{"SouthboundKeys", "The southbound database has the tunnel keys that Weft's rows request.", southboundKeys},
	}
}

// request is a row that requests a tunnel key.
type request struct {
	row   any
	scope string // in which the key is unique; empty for a port without a switch or router
	text  string
	max   int
}

// key returns the requested number. ok is false if it is not a number or out of range.
func (r request) key() (key int, ok bool) {
	key, err := strconv.Atoi(r.text)
	return key, err == nil && key >= 1 && key <= r.max
}

// requests lists the rows that request a tunnel key, including foreign rows, because northd serves all of them alike.
func (v *view) requests() (all []request) {
	add := func(row any, scope string, options map[string]string, largest int) {
		if text, ok := options[requestedTunnelKey]; ok {
			all = append(all, request{row, scope, text, largest})
		}
	}
	for _, s := range v.switches {
		add(s, "the network", s.OtherConfig, maxDatapathKey)
	}
	for _, r := range v.routers {
		add(r, "the network", r.Options, maxDatapathKey)
	}
	for _, port := range v.ports {
		add(port, scopeOf("switch", v.onSwitch[port.UUID]), port.Options, maxPortKey)
	}
	for _, port := range v.routerPorts {
		add(port, scopeOf("router", v.onRouter[port.UUID]), port.Options, maxPortKey)
	}
	return all
}

// scopeOf returns the switch or router of a port by its UUID, because names may not be unique.
func scopeOf[T interface {
	GetName() string
	GetUUID() string
}](kind string, on []T) string {
	if len(on) == 0 {
		return ""
	}
	return fmt.Sprintf("%s %s (%s)", kind, on[0].GetName(), on[0].GetUUID())
}

func tunnelKeyInRange(v *view) (found []Violation) {
	for _, r := range v.requests() {
		if _, ok := r.key(); !ok {
			found = append(found, v.about([]any{r.row}, "%s requests the tunnel key %q, which is not in 1..%d",
				v.rowOf(r.row), r.text, r.max))
		}
	}
	return found
}

func uniqueTunnelKey(v *view) (found []Violation) {
	type place struct {
		scope string
		key   int
	}
	byKey := map[place][]any{}
	for _, r := range v.requests() {
		if key, ok := r.key(); ok && r.scope != "" {
			byKey[place{r.scope, key}] = append(byKey[place{r.scope, key}], r.row)
		}
	}
	for at, rows := range byKey {
		if len(rows) > 1 && anyOurs(rows) {
			found = append(found, v.about(rows, "%d rows request the tunnel key %d of %s", len(rows), at.key, at.scope))
		}
	}
	return found
}

// southboundKeys compares existing southbound rows. A row that northd has not copied yet is no violation.
func southboundKeys(v *view) (found []Violation) {
	datapaths := map[string]int{} // UUID of a switch or router -> key
	for _, d := range rowsIn[sbdb.DatapathBinding](v.Southbound, sbdb.DatapathBindingTable) {
		for _, kind := range []string{"logical-switch", "logical-router"} {
			if id, ok := d.ExternalIDs[kind]; ok {
				datapaths[id] = d.TunnelKey
			}
		}
	}
	ports := map[string]int{} // name of a port -> key
	for _, p := range rowsIn[sbdb.PortBinding](v.Southbound, sbdb.PortBindingTable) {
		ports[p.LogicalPort] = p.TunnelKey
	}
	for _, r := range v.requests() {
		want, ok := r.key()
		if !ok || !ours(r.row) {
			continue
		}
		row := v.rowOf(r.row)
		have, known := ports[row.Name]
		if row.Table == nbdb.LogicalSwitchTable || row.Table == nbdb.LogicalRouterTable {
			have, known = datapaths[row.UUID]
		}
		if known && have != want {
			found = append(found, v.about([]any{r.row}, "%s requests the tunnel key %d and has %d", row, want, have))
		}
	}
	return found
}
