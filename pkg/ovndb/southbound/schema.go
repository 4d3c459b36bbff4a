// Package southbound describes the OVN southbound database to an agent.
package southbound

import (
	"github.com/weft-network/weft/pkg/ovn/sbdb"
	"github.com/weft-network/weft/pkg/ovndb"
)

// Schema describes what an agent reads. The agent never writes this database.
func Schema() ovndb.Schema {
	tables := map[string]ovndb.Table{
		sbdb.PortBindingTable: {Foreign: true, Omitted: []string{"additional_chassis", "additional_encap", "encap",
			"requested_additional_chassis", "virtual_parent", "parent_port", "tag"}},
		sbdb.ChassisTable:         {Foreign: true, Omitted: []string{"nb_cfg", "transport_zones", "vtep_logical_switches"}},
		sbdb.ControllerEventTable: {Foreign: true},
		sbdb.AddressSetTable:      {Foreign: true},
	}
	model, err := sbdb.FullDatabaseModel()
	return ovndb.NewSchema(model, err, tables)
}

// AddressSets describes the address sets alone.
func AddressSets() ovndb.Schema {
	model, err := sbdb.FullDatabaseModel()
	return ovndb.NewSchema(model, err, map[string]ovndb.Table{sbdb.AddressSetTable: {Foreign: true}})
}
