package probe

import (
	"net/netip"
	"os"
	"strings"
)

// resolver returns the first name server of the pod, or none.
func resolver() netip.Addr {
	text, err := os.ReadFile("/etc/resolv.conf")
	if err != nil {
		return netip.Addr{}
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) > 1 && fields[0] == "nameserver" {
			address, _ := netip.ParseAddr(fields[1])
			return address
		}
	}
	return netip.Addr{}
}
