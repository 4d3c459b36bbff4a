package connectivity

import (
	"net/netip"
	"time"
)

// Port is the TCP and UDP port on which pods of the check serve.
const Port = 8080

// Program is the path of the program in Weft's image whose subcommand "probe" serves and sends.
const Program = "/usr/bin/weft"

// Kind is what a probe sends.
type Kind string

// The kinds of probes.
const (
	TCP  Kind = "tcp"  // a connection; the server answers with its name
	UDP  Kind = "udp"  // a datagram; the server answers with its name
	Size Kind = "size" // datagrams that must not be fragmented: the largest that arrives and returns
	Name Kind = "name" // a name to resolve
	Open Kind = "open" // a TCP connection to a server that answers nothing
)

// Probe is what a pod or a node sends. "weft probe run" reads a list of probes in JSON.
type Probe struct {
	Kind Kind `json:"kind"`
	// To is an address and a port, or a name for the kind Name. With a name and a port, V6 selects the family.
	To string `json:"to"`
	V6 bool   `json:"v6,omitempty"`
	// Want are the addresses that a name must have.
	Want []netip.Addr `json:"want,omitempty"`
	// Patience is how long a probe without an answer is repeated. With 0 it is sent once.
	Patience time.Duration `json:"patience,omitempty"`
}

// Result is the result of a probe.
type Result struct {
	// Server is the name of the pod that answered.
	Server string `json:"server,omitempty"`
	// Addresses are what a name was resolved to.
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// Size is the largest packet that arrived and returned, in bytes with its IP header. MTU is the MTU of the sender's link.
	Size int `json:"size,omitempty"`
	MTU  int `json:"mtu,omitempty"`
	// Attempts counts the attempts, and Took is the time of the last.
	Attempts int           `json:"attempts"`
	Took     time.Duration `json:"took"`
	// Resolver is the name server of the sender.
	Resolver netip.Addr `json:"resolver,omitzero"`
	// Error is empty if the probe was answered.
	Error string `json:"error,omitempty"`
}

// FlowRequest is what "weft probe flows" reads, in JSON. It answers with a Flows.
type FlowRequest struct {
	// Start are destinations to which the pod sends a datagram each Interval, until Stop.
	Start    []string      `json:"start,omitempty"`
	Interval time.Duration `json:"interval,omitempty"`
	Stop     bool          `json:"stop,omitempty"`
}

// Flows are the states of the flows of a pod, in the order in which they were started.
type Flows struct {
	Flows []FlowState `json:"flows"`
	// Received is how many datagrams the pod has received as a server, by the ID of the flow.
	Received map[string]int64 `json:"received,omitempty"`
}

// FlowState counts the datagrams of a flow. While the flow runs, datagrams of the last second are not counted as lost.
type FlowState struct {
	ID       string `json:"id"`
	To       string `json:"to"`
	Sent     int64  `json:"sent"`
	Answered int64  `json:"answered"`
	// LostThere is how many datagrams did not reach the server, and LostBack how many of its answers did not return. Until
	// Settle, they rest on the count in the last answer.
	LostThere int64 `json:"lostThere"`
	LostBack  int64 `json:"lostBack"`
	// Gap is the longest time without an answer, and GapAt when it began.
	Gap   time.Duration `json:"gap"`
	GapAt time.Time     `json:"gapAt,omitzero"`
	// Error is the last error of sending.
	Error string `json:"error,omitempty"`
}

// Settle corrects the losses of a flow that has ended by what the servers have received.
func (s FlowState) Settle(received int64) FlowState {
	arrived := max(received, s.Answered, s.Sent-s.LostThere) // a server that was restarted has counted less
	s.LostThere, s.LostBack = max(0, s.Sent-arrived), max(0, min(s.Sent, arrived)-s.Answered)
	return s
}
