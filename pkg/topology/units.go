package topology

import (
	"github.com/weft-network/weft/pkg/nbdb"
	"github.com/weft-network/weft/pkg/unit"
)

// Kinds of units.
const (
	KindNetwork = "network"
	KindNode    = "node"
	KindPod     = "pod"
	KindGateway = "gateway"
	KindService = "service"
)

// NetworkKey is the unit of the cluster network.
func NetworkKey() unit.Key { return unit.NewKey(KindNetwork, "default") }

// NodeKey is the unit of a node.
func NodeKey(node string) unit.Key { return unit.NewKey(KindNode, node) }

// GatewayKey is the unit of a node's gateway.
func GatewayKey(node string) unit.Key { return unit.NewKey(KindGateway, node) }

// PodKey is the unit of a pod.
func PodKey(namespace, name string) unit.Key { return unit.NewKey(KindPod, namespace, name) }

func switchRef(name string) unit.Ref {
	return unit.Ref{Table: nbdb.LogicalSwitchTable, UUID: unit.UUID(nbdb.LogicalSwitchTable, name)}
}

func routerRef(name string) unit.Ref {
	return unit.Ref{Table: nbdb.LogicalRouterTable, UUID: unit.UUID(nbdb.LogicalRouterTable, name)}
}

func switchPortUUID(name string) string { return unit.UUID(nbdb.LogicalSwitchPortTable, name) }

func routerPortUUID(name string) string { return unit.UUID(nbdb.LogicalRouterPortTable, name) }
