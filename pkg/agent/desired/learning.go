package desired

import (
	"fmt"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/names"
)

// DetourRegister and DetourBit mark a packet on the detour of PassLearners. OVN's flags are in the same register and do not
// use the bit.
const (
	DetourRegister = 10
	DetourBit      = 1 << detourBit
	detourBit      = 31
)

// The priorities of the flows of PassLearners: higher and lower than OVN's flows that learn, which have 100. The flow that
// goes on without learning has 0.
const (
	priorityDetour    = 65000
	priorityDetourEnd = 1
)

// BalancingDatapaths returns the logical datapaths through which clients of services come to the node: its switch and its
// gateway router. A node without an ID has neither yet.
func BalancingDatapaths(spec networkv1alpha1.NodeNetworkSpec) []uint64 {
	if spec.NodeID == 0 {
		return nil
	}
	return []uint64{names.NodeSwitchKeys + uint64(spec.NodeID), names.GatewayKeys + uint64(spec.NodeID)}
}

// PassLearners returns flows of br-int for a table of a logical datapath in which OVN learns which backend a client has
// (affinity_timeout).
//
// OVN's flows learn and drop the packet. Its connection is translated by then, so repetitions of the packet are dropped too,
// until the client gives up. These flows process each packet of a new connection twice: first on a detour, which ends in
// the same table, and then in the next table.
//
//	packet ─▶ table ─┬─ 1. marked, the table once more: learn, or else the end
//	                 └─ 2. the next table
func PassLearners(datapath uint64, table int) []Flow {
	match, mark := fmt.Sprintf("metadata=0x%x,reg%d=", datapath, DetourRegister), fmt.Sprintf("NXM_NX_REG%d[%d]", DetourRegister, detourBit)
	return []Flow{
		{table, priorityDetour, fmt.Sprintf("%s0/0x%x,ct_state=+new+trk", match, DetourBit),
			fmt.Sprintf("load:1->%s,resubmit(,%d),load:0->%s,resubmit(,%d)", mark, table, mark, table+1)},
		{table, priorityDetourEnd, fmt.Sprintf("%s0x%x/0x%x", match, DetourBit, DetourBit), drop},
	}
}
