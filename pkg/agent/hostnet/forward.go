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
// it keeps accepting them: without accept_ra=2 a host that forwards would ignore them (ip-sysctl.rst). wrote reports a change.
func Forward(linkName string, families Families) (wrote bool, err error) {
	if families.IPv4 {
		if wrote, err = setTo("ipv4/ip_forward", "0", "1"); err != nil {
			return wrote, err
		}
	}
	if !families.IPv6 {
		return wrote, nil
	}
	accepts, err := setTo(filepath.Join("ipv6/conf", linkName, "accept_ra"), "1", "2")
	if err != nil {
		return wrote || accepts, err
	}
	forwards, err := setTo("ipv6/conf/all/forwarding", "0", "1")
	return wrote || accepts || forwards, err
}

// RouteLoopback lets the host's connections to 127.0.0.0/8 leave by a link after they are translated (route_localnet in
// ip-sysctl.rst). The kernel drops the setting when the link is removed.
func RouteLoopback(linkName string) (wrote bool, err error) {
	return setTo(filepath.Join("ipv4/conf", linkName, "route_localnet"), "0", "1")
}

// ignoreRouters stops a link of Weft's own from accepting router advertisements, because any pod could send them and give the host
// addresses and routes. A kernel without IPv6 accepts none anyway.
func ignoreRouters(linkName string) (wrote bool, err error) {
	for _, accepts := range []string{"1", "2"} { // 2 may come from net.ipv6.conf.default
		wrote, err = setTo(filepath.Join("ipv6/conf", linkName, "accept_ra"), accepts, "0")
		if wrote || err != nil {
			break
		}
	}
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return wrote, err
}

// setTo writes a setting if it has the former value, and leaves any other value unchanged.
func setTo(name, former, value string) (wrote bool, err error) {
	path := filepath.Join(sysctls, name)
	have, err := os.ReadFile(path)
	if err != nil {
		return false, fmt.Errorf("sysctl: %w", err)
	}
	if strings.TrimSpace(string(have)) != former {
		return false, nil
	}
	if err := os.WriteFile(path, []byte(value), 0); err != nil {
		return false, fmt.Errorf("sysctl: %w", err)
	}
	return true, nil
}
