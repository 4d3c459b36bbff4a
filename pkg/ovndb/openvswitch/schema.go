// Package openvswitch describes a node's Open_vSwitch database to the engine.
package openvswitch

import (
	"github.com/weft-network/weft/pkg/ovn/vswitchdb"
	"github.com/weft-network/weft/pkg/ovndb"
)

// Schema describes the database as the agent writes it. Only named keys of the maps are owned, because ovs-vswitchd
// and ovn-controller write them too.
func Schema() ovndb.Schema {
	tables := map[string]ovndb.Table{
		vswitchdb.OpenvSwitchTable: {Root: true, Foreign: true, Shared: []string{"bridges", "external_ids"},
			Monitored: []string{"external_ids"},
			Combine: map[string]func(have, want string) string{
				vswitchdb.BridgeMappingsKey:  vswitchdb.CombineMappings,
				"weft.dev/physical-networks": wanted,
				vswitchdb.DefaultTunnelKey:   wanted,
			},
			Ignored: []string{"datapath_types", "iface_types", "ovs_version"},
			Omitted: []string{"cur_cfg", "next_cfg", "db_version", "dpdk_initialized", "dpdk_version", "system_type", "system_version",
				"other_config"}},
		vswitchdb.BridgeTable: {Shared: []string{"ports"}, Merge: []string{"external_ids", "other_config"},
			Ignored: []string{"datapath_id", "datapath_version"},
			Omitted: []string{"status", "rstp_status", "flood_vlans", "protocols", "mcast_snooping_enable", "rstp_enable", "stp_enable"}},
		vswitchdb.PortTable: {Merge: []string{"external_ids", "other_config"},
			Omitted: []string{"status", "statistics", "rstp_status", "rstp_statistics", "bond_active_slave", "bond_downdelay",
				"bond_fake_iface", "bond_mode", "bond_updelay", "cvlans", "fake_bridge", "lacp", "mac", "protected", "tag", "trunks",
				"vlan_mode"}},
		vswitchdb.InterfaceTable: {Merge: []string{"external_ids", "other_config", "options"},
			Ignored: []string{"error", "ofport", "mac_in_use", "mtu", "link_state", "admin_state", "ifindex"},
			Omitted: []string{"status", "bfd", "bfd_status", "cfm_fault", "cfm_fault_status", "cfm_flap_count", "cfm_health",
				"cfm_mpid", "cfm_remote_mpids", "cfm_remote_opstate", "duplex", "ingress_policing_burst",
				"ingress_policing_kpkts_burst", "ingress_policing_kpkts_rate", "ingress_policing_rate", "lacp_current", "link_resets",
				"link_speed", "lldp", "ofport_request"}},
	}
	model, err := vswitchdb.FullDatabaseModel()
	return ovndb.NewSchema(model, err, tables)
}

// wanted makes an element absent whose wanted value is empty.
func wanted(_, want string) string { return want }
