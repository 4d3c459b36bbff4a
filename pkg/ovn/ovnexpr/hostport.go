package ovnexpr

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// HostPortsKey is the external_ids key of a pod's port that lists the host ports that lead to the pod, separated by
// commas. northd copies it to the southbound database, so that the node has the list even without other programs.
const HostPortsKey = "weft.dev/host-ports"

// RandomHostPortsKey is the external_ids key of a pod's port that lists the random host ports that the pod requests, in
// the notation of HostPortsKey with the port 0: "tcp/:0/8080". The node's agent chooses the ports; HostPortsKey has
// them once the operator has read the choice.
const RandomHostPortsKey = "weft.dev/random-host-ports"

// HostPort is a port of a node that leads to a pod: "tcp/:8088/8080", "udp/172.18.0.11:53/5353".
type HostPort struct {
	Protocol string // "tcp", "udp", "sctp"
	// Address is the requested address of the node. If it is invalid, all addresses are meant.
	Address netip.Addr
	// Port is the node's port, Target the pod's.
	Port, Target uint16
}

// String formats the element.
func (h HostPort) String() string {
	at := ":" + strconv.Itoa(int(h.Port))
	if h.Address.IsValid() {
		at = netip.AddrPortFrom(h.Address, h.Port).String()
	}
	return h.Protocol + "/" + at + "/" + strconv.Itoa(int(h.Target))
}

// FormatHostPorts returns the value of HostPortsKey; empty without host ports.
func FormatHostPorts(ports []HostPort) string {
	texts := make([]string, 0, len(ports))
	for _, port := range ports {
		texts = append(texts, port.String())
	}
	slices.Sort(texts)
	return strings.Join(texts, ",")
}

// ParseHostPorts parses the value of HostPortsKey. The empty text has no host ports.
func ParseHostPorts(text string) (ports []HostPort, err error) {
	if text == "" {
		return nil, nil
	}
	for _, element := range strings.Split(text, ",") {
		port, err := parseHostPort(element)
		if err != nil {
			return nil, fmt.Errorf("host port %q: %w", element, err)
		}
		ports = append(ports, port)
	}
	return ports, nil
}

func parseHostPort(text string) (port HostPort, err error) {
	parts := strings.Split(text, "/")
	const fields = 3
	if len(parts) != fields {
		return port, fmt.Errorf("want protocol/address:port/target")
	}
	port.Protocol = parts[0]
	target, err := strconv.ParseUint(parts[2], 10, 16)
	if err != nil {
		return port, err
	}
	port.Target = uint16(target)
	if number, ok := strings.CutPrefix(parts[1], ":"); ok {
		at, err := strconv.ParseUint(number, 10, 16)
		port.Port = uint16(at)
		return port, err
	}
	at, err := netip.ParseAddrPort(parts[1])
	port.Address, port.Port = at.Addr(), at.Port()
	return port, err
}
