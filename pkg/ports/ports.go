// Package ports defines the ports at which Weft and OVN's databases listen on nodes. The manifests in config/ repeat
// the probes' ports, and a test compares both.
package ports

import "strconv"

// TCP ports of Weft's programs.
const (
	OperatorHealth  = 9440
	OperatorMetrics = 9441
	// AgentHealth also responds to probes of other agents and of the operator.
	AgentHealth  = 9442
	AgentMetrics = 9443
	// ProxyHealth is kube-proxy's port, where load balancers of clouds expect the health of a node.
	ProxyHealth     = 10256
	OperandsHealth  = 9444
	OperandsMetrics = 9445
	// ExtenderHealth, ExtenderMetrics and Extender are in the extender's pod, not at a node.
	ExtenderHealth  = 9446
	ExtenderMetrics = 9447
	Extender        = 9448
	// APIHealth, APIMetrics and API are in the pods of the addresses' API, not at a node.
	APIHealth  = 9449
	APIMetrics = 9450
	API        = 9451
	// ZoneOperatorHealth and ZoneOperatorMetrics are of the operator of a zone, which may share a node with the operator of the part of the
	// cluster without a name.
	ZoneOperatorHealth  = 9452
	ZoneOperatorMetrics = 9453
)

// TCP ports of OVN's databases.
const (
	Northbound = 6641
	// Southbound requires OVN's role for ovn-controllers.
	Southbound = 6642
	// SouthboundReader is read-only, for agents.
	SouthboundReader = 16642
	// SouthboundSource is for relays, which copy the southbound database and forward the nodes' transactions to it.
	SouthboundSource = 16643
	// Relay and RelayReader are the ports of a relay that correspond to Southbound and SouthboundReader.
	Relay       = 16644
	RelayReader = 16645
	// Members is for the connections between the hosts of a database's members, and of the operator to them.
	Members = 6643
	// SouthboundMembers is OVN's default for the members of its southbound database. It is reserved, and unused by Weft.
	SouthboundMembers = 6644
)

// Geneve is the UDP port of tunnels between nodes (RFC 8926 §3.3).
const Geneve = 6081

// Any returns the listen address of a port at all of a host's addresses.
func Any(port int) string { return ":" + strconv.Itoa(port) }
