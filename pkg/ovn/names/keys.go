package names

// Tunnel keys of datapaths are one 24-bit space that switches and routers share. These are the first keys of the datapaths
// that each node has.
const (
	NodeSwitchKeys = 0x010000 // + node ID
	GatewayKeys    = 0x020000 // + node ID
)
