package northbound

import (
	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
)

// ReaderSchema describes what "weft-ovn remotes" reads: names, types, options and external_ids of switch ports.
func ReaderSchema() ovndb.Schema {
	tables := map[string]ovndb.Table{
		nbdb.LogicalSwitchPortTable: {Foreign: true, Omitted: []string{"addresses", "dhcpv4_options", "dhcpv6_options",
			"dynamic_addresses", "enabled", "ha_chassis_group", "parent_name", "port_security", "tag", "tag_request",
			"up"}},
	}
	db, err := model.NewClientDBModel("OVN_Northbound", map[string]model.Model{
		nbdb.LogicalSwitchPortTable: &nbdb.LogicalSwitchPort{}})
	return ovndb.NewSchema(db, err, tables)
}
