package topology

import (
	"strconv"

	"github.com/weft-network/weft/pkg/ovn/names"
)

// Tunnel keys of datapaths: one 24-bit space that switches and routers share.
const (
	clusterRouterKey = 1
	joinSwitchKey    = 2
	nodeSwitchKeys   = names.NodeSwitchKeys
	gatewayKeys      = names.GatewayKeys
	externalKeys     = 0x030000 // + node ID
)

// Tunnel keys of ports: one space of 1..32767 per switch or router.
const (
	switchToRouterKey  = 1
	managementPortKey  = 2
	routerToJoinKey    = 1
	routerToSwitchKeys = 16 // + node ID
	joinToRouterKey    = 1
	refusalKey         = 2
	joinToGatewayKeys  = 16 // + node ID
	gatewayToJoinKey   = 1
	gatewayToExternal  = 2
	externalToGateway  = 1
	localnetKey        = 2
	egressPortKey      = 3
)

// requestedTunnelKey is the option that requests a key from northd (ovn-nb(5)).
const requestedTunnelKey = "requested-tnl-key"

func key(n int) string { return strconv.Itoa(n) }
