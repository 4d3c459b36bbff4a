// Package northbound describes the OVN northbound database to the engine.
package northbound

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/unit"
)

const (
	// MaxPortKey is the largest tunnel key of a logical port; 32768 and above are multicast groups (ovn-sb(5), Port_Binding).
	MaxPortKey = 32767
	// MaxDatapathKey is the largest tunnel key of a datapath with Geneve: 24 bits, the last value reserved (ovn-sb(5)).
	MaxDatapathKey = 1<<24 - 2
	// requestedTunnelKey is the option that requests a tunnel key from northd (ovn-nb(5)).
	requestedTunnelKey = "requested-tnl-key"
)

// Schema describes the database as the operator writes it.
func Schema() ovndb.Schema {
	shared := func(root bool, columns ...string) ovndb.Table { return ovndb.Table{Root: root, Shared: columns} }
	tables := map[string]ovndb.Table{
		nbdb.NBGlobalTable: {Root: true, Foreign: true, Shared: []string{"options"}, Ignored: []string{"name", "external_ids"},
			Omitted: []string{"nb_cfg", "nb_cfg_timestamp", "sb_cfg", "sb_cfg_timestamp", "hv_cfg", "hv_cfg_timestamp", "ipsec"}},
		nbdb.LogicalSwitchTable: shared(true, "ports", "acls", "qos_rules", "load_balancer", "load_balancer_group", "dns_records"),
		// northd fills dynamic_addresses, up and tag. Comparing them would rewrite the row for ever.
		nbdb.LogicalSwitchPortTable: {Ignored: []string{"up", "dynamic_addresses", "tag"}},
		nbdb.LogicalRouterTable: shared(true, "ports", "policies", "static_routes", "nat", "load_balancer",
			"load_balancer_group"),
		nbdb.LogicalRouterPortTable:        {Ignored: []string{"ipv6_prefix"}},
		nbdb.LogicalRouterStaticRouteTable: {Shared: []string{"bfd"}, Weak: []string{"bfd"}},
		nbdb.BFDTable:                      {Root: true, Ignored: []string{"status"}}, // northd writes status
		nbdb.LogicalRouterPolicyTable:      {},
		nbdb.NATTable:                      {Optional: []string{"match", "priority"}}, // OVN 24.09
		// Whole: the group itself removes references that no unit wants.
		nbdb.PortGroupTable:          {Root: true, Shared: []string{"ports", "acls"}, Weak: []string{"ports"}, Whole: []string{"ports"}},
		nbdb.AddressSetTable:         {Root: true, Shared: []string{"addresses"}, Whole: []string{"addresses"}},
		nbdb.ACLTable:                {},
		nbdb.QoSTable:                {},
		nbdb.MeterTable:              {Root: true},
		nbdb.MeterBandTable:          {},
		nbdb.LoadBalancerTable:       shared(true),
		nbdb.LoadBalancerGroupTable:  {Root: true, Shared: []string{"load_balancer"}, ByName: &groups},
		nbdb.ChassisTemplateVarTable: {Root: true, Shared: []string{"variables"}, Whole: []string{"variables"}},
	}
	for _, table := range []string{nbdb.LogicalSwitchTable, nbdb.LogicalRouterTable} {
		t := tables[table]
		t.Named = true
		// The column has few elements, which are repaired as fast as any column. It is not part of the row, so the
		// elements can be removed from a switch that has lost our name, and the switch does not keep the node's other
		// rows.
		t.Monitored = []string{"load_balancer_group"}
		tables[table] = t
	}
	model, err := nbdb.FullDatabaseModel()
	schema := ovndb.NewSchema(model, err, tables)
	schema.Fence = nbdb.NBGlobalTable
	schema.TunnelKey = requestedKey
	return schema
}

// groups maps names to units, because the table has no external_ids. A group of one unit has the unit's key as its
// name. The other groups exist once and permanently.
var groups = ovndb.Naming{
	Owner: func(name string) unit.Key {
		if !strings.Contains(name, "/") {
			return ""
		}
		return unit.Key(name)
	},
	Names: func(owner unit.Key) []string { return []string{string(owner)} },
}

// requestedKey reads the key that a switch, router or port requests. Switches and routers share one key space.
func requestedKey(table string, row model.Model) (ovndb.TunnelKey, bool, error) {
	switch r := row.(type) {
	case *nbdb.LogicalSwitch:
		return tunnelKey(r.OtherConfig, "datapaths", MaxDatapathKey)
	case *nbdb.LogicalRouter:
		return tunnelKey(r.Options, "datapaths", MaxDatapathKey)
	case *nbdb.LogicalSwitchPort:
		return tunnelKey(r.Options, table, MaxPortKey)
	case *nbdb.LogicalRouterPort:
		return tunnelKey(r.Options, table, MaxPortKey)
	}
	return ovndb.TunnelKey{}, false, nil
}

func tunnelKey(options map[string]string, scope string, largest int) (ovndb.TunnelKey, bool, error) {
	text, ok := options[requestedTunnelKey]
	if !ok {
		return ovndb.TunnelKey{}, false, nil
	}
	key, err := strconv.Atoi(text)
	if err != nil || key < 1 || key > largest {
		return ovndb.TunnelKey{}, false, fmt.Errorf("%s %q is not in 1..%d", requestedTunnelKey, text, largest)
	}
	return ovndb.TunnelKey{Scope: scope, Key: key, Max: largest}, true, nil
}
