// Package ovnexpr provides types for the texts that OVN reads and writes in its columns.
package ovnexpr

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// PortAddress is an element of Logical_Switch_Port.addresses and Port_Binding.mac: "0a:58:0a:f4:01:05 10.244.1.5 fd00::5".
type PortAddress struct {
	MAC       net.HardwareAddr
	Addresses []netip.Addr
}

// String formats the element.
func (p PortAddress) String() string {
	var text strings.Builder
	text.WriteString(p.MAC.String())
	for _, a := range p.Addresses {
		text.WriteString(" " + a.String())
	}
	return text.String()
}

// ethernet is the length of a MAC in bytes. OVN accepts no other length.
const ethernet = 6

// ParsePortAddress parses an element that has a MAC. "router", "unknown" and "dynamic" have none and are errors.
func ParsePortAddress(text string) (PortAddress, error) {
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return PortAddress{}, fmt.Errorf("port address %q is empty", text)
	}
	mac, err := net.ParseMAC(fields[0])
	if err != nil {
		return PortAddress{}, fmt.Errorf("port address %q: %w", text, err)
	}
	if len(mac) != ethernet {
		return PortAddress{}, fmt.Errorf("port address %q: MAC %s has %d bytes", text, mac, len(mac))
	}
	found := PortAddress{MAC: mac}
	for _, field := range fields[1:] {
		address, err := netip.ParseAddr(field)
		if err != nil {
			return PortAddress{}, fmt.Errorf("port address %q: %w", text, err)
		}
		found.Addresses = append(found.Addresses, address)
	}
	return found, nil
}
