package hostnet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Families says which of the two are meant.
type Families struct{ IPv4, IPv6 bool }

// sysctls is where the kernel's settings of this network namespace are.
const sysctls = "/proc/sys/net"

// Forward lets the host forward between its links. Where the link learns its IPv6 routes from routers, it goes on to, which a host that
// forwards would not by itself (accept_ra in ip-sysctl.rst).
func Forward(linkName string, families Families) error {
	if families.IPv4 {
		if err := setTo("ipv4/ip_forward", "0", "1"); err != nil {
			return err
		}
	}
	if !families.IPv6 {
		return nil
	}
	if err := setTo(filepath.Join("ipv6/conf", linkName, "accept_ra"), "1", "2"); err != nil {
		return err
	}
	return setTo("ipv6/conf/all/forwarding", "0", "1")
}

// RouteLoopback lets connections of the host's to 127.0.0.0/8 leave by a link once they are translated (route_localnet in ip-sysctl.rst). The
// setting ends with the link.
func RouteLoopback(linkName string) error {
	return setTo(filepath.Join("ipv4/conf", linkName, "route_localnet"), "0", "1")
}

// setTo changes a setting that has the former value; another is left as it is.
func setTo(name, former, value string) error {
	path := filepath.Join(sysctls, name)
	have, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("sysctl: %w", err)
	}
	if strings.TrimSpace(string(have)) != former {
		return nil
	}
	if err := os.WriteFile(path, []byte(value), 0); err != nil {
		return fmt.Errorf("sysctl: %w", err)
	}
	return nil
}
