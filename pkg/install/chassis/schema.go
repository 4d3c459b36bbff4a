package chassis

import (
	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/sbdb"
	"github.com/weft-network/weft/pkg/ovndb"
)

// northboundSchema describes what is read: names, types, options and external_ids of switch ports, and the chassis of the
// nodes, each of which has a row of template variables.
func northboundSchema() ovndb.Schema {
	tables := map[string]ovndb.Table{
		nbdb.LogicalSwitchPortTable: {Foreign: true, Omitted: []string{"addresses", "dhcpv4_options", "dhcpv6_options",
			"dynamic_addresses", "enabled", "ha_chassis_group", "parent_name", "port_security", "tag", "tag_request",
			"up"}},
		nbdb.ChassisTemplateVarTable: {Foreign: true, Omitted: []string{"external_ids", "variables"}},
	}
	db, err := model.NewClientDBModel("OVN_Northbound", map[string]model.Model{
		nbdb.LogicalSwitchPortTable: &nbdb.LogicalSwitchPort{}, nbdb.ChassisTemplateVarTable: &nbdb.ChassisTemplateVar{}})
	return ovndb.NewSchema(db, err, tables)
}

// southboundSchema describes what is read and written: the chassis of other zones' nodes. ovn-controllers
// write their own chassis to the same tables.
func southboundSchema() ovndb.Schema {
	tables := map[string]ovndb.Table{
		// ovn-northd waits for every Chassis_Private without a chassis, so a node that has left the zone must not leave
		// one behind. The ovn-controller of a node that is about to leave, or has come early, takes over the row with its
		// name. It keeps is-remote and adds keys of its own.
		sbdb.ChassisTable: {Root: true, Supersedes: []string{sbdb.ChassisTable, sbdb.ChassisPrivateTable},
			Merge: []string{"other_config"}, Omitted: []string{"nb_cfg", "transport_zones", "vtep_logical_switches"}},
		sbdb.EncapTable:          {},
		sbdb.ChassisPrivateTable: {Foreign: true, Omitted: []string{"chassis", "external_ids", "nb_cfg", "nb_cfg_timestamp"}},
		sbdb.PortBindingTable: {Foreign: true, Omitted: []string{"additional_chassis", "additional_encap", "chassis", "datapath",
			"encap", "external_ids", "mac", "nat_addresses", "parent_port", "port_security", "requested_additional_chassis",
			"requested_chassis", "tag", "tunnel_key", "up", "virtual_parent"}},
	}
	db, err := model.NewClientDBModel("OVN_Southbound", map[string]model.Model{
		sbdb.ChassisTable: &sbdb.Chassis{}, sbdb.EncapTable: &sbdb.Encap{}, sbdb.ChassisPrivateTable: &sbdb.ChassisPrivate{},
		sbdb.PortBindingTable: &sbdb.PortBinding{}})
	return ovndb.NewSchema(db, err, tables)
}
