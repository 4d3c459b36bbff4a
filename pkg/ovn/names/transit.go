package names

// Names of the rows that connect a zone with the others.
const (
	// TransitSwitch is the switch that all zones share.
	TransitSwitch = "transit"
	// TransitRouter is the zone's router on the transit switch.
	TransitRouter = "transit_router"
	// RouterToTransit and TransitToRouter are the ends of the link between the cluster router and the transit router.
	RouterToTransit = "rtotr"
	TransitToRouter = "trtor"
	// TransitSender is the part of the names of the ports through which a zone sends to others.
	TransitSender = "sender"
)

// RouterToTransitSwitch is the transit router's port for a node, or its TransitSender.
func RouterToTransitSwitch(node string) string { return "rtots-" + node }

// TransitSwitchPort is the transit switch's port for a node, or a zone's TransitSender.
func TransitSwitchPort(node string) string { return "tstor-" + node }

// RemotePort is the type of the port of a node elsewhere. The option RequestedChassis names the node's chassis.
const RemotePort = "remote"

// Keys of the external_ids of a port for a node elsewhere, from which the node's chassis is made in the southbound database.
const (
	RemoteEncaps   = "weft.dev/encap"
	RemoteHostname = "weft.dev/hostname"
)
