package hostnet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Families selects IP families.
type Families struct{ IPv4, IPv6 bool }

// sysctls is the directory of this network namespace's kernel settings.
const sysctls = "/proc/sys/net"

// Forward lets the host forward between its links, in the selected families. If the link accepts router advertisements,
// it keeps accepting them: without accept_ra=2 a host that forwards would ignore them (ip-sysctl.rst).
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

// RouteLoopback lets the host's connections to 127.0.0.0/8 leave by a link after they are translated (route_localnet in
// ip-sysctl.rst). The kernel drops the setting when the link is removed.
func RouteLoopback(linkName string) error {
	return setTo(filepath.Join("ipv4/conf", linkName, "route_localnet"), "0", "1")
}

// ignoreRouters stops a link from accepting router advertisements, because any pod could send them and give the host
// addresses and routes. A kernel without IPv6 accepts none anyway.
func ignoreRouters(linkName string) error {
	if err := setTo(filepath.Join("ipv6/conf", linkName, "accept_ra"), "1", "0"); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// setTo writes a setting if it has the former value, and leaves any other value unchanged.
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
