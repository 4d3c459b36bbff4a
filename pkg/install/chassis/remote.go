package chassis

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/sbdb"
	"github.com/weft-network/weft/pkg/unit"
)

// kind is the kind of the units. Their name is the chassis' name.
const kind = "chassis"

// Chassis is the chassis of a node of another zone.
type Chassis struct {
	Name, Hostname string
	Encaps         []Encap // sorted, without duplicates, at least one
}

// Encap is one tunnel end of a chassis. Its type is Geneve.
type Encap struct{ IP netip.Addr }

// Problem says why a port gets no chassis, or why its chassis comes from another port.
type Problem struct{ Port, Reason string }

// Compute returns the chassis that the remote ports request, sorted by name, and a problem for each port that it
// skips. If two ports contradict each other, the port whose name sorts first counts. Ports of other types are ignored.
func Compute(ports []*nbdb.LogicalSwitchPort) ([]Chassis, []Problem) {
	ports = slices.Clone(ports)
	slices.SortFunc(ports, func(a, b *nbdb.LogicalSwitchPort) int { return cmp.Compare(a.Name, b.Name) })
	found, ends := map[string]Chassis{}, map[Encap]string{} // tunnel end -> chassis
	var all []Chassis
	var problems []Problem
	for _, port := range ports {
		if port.Type != names.RemotePort {
			continue
		}
		c, err := parse(port)
		if err == nil {
			err = conflict(c, found, ends)
		}
		if err != nil {
			problems = append(problems, Problem{Port: port.Name, Reason: err.Error()})
			continue
		}
		if _, known := found[c.Name]; known {
			continue
		}
		found[c.Name], all = c, append(all, c)
		for _, e := range c.Encaps {
			ends[e] = c.Name
		}
	}
	slices.SortFunc(all, func(a, b Chassis) int { return cmp.Compare(a.Name, b.Name) })
	return all, problems
}

// conflict returns an error if an earlier port contradicts the chassis. The southbound database accepts a tunnel end
// only once.
func conflict(c Chassis, found map[string]Chassis, ends map[Encap]string) error {
	if other, known := found[c.Name]; known {
		if c.Hostname != other.Hostname || !slices.Equal(c.Encaps, other.Encaps) {
			return fmt.Errorf("another port gives chassis %s a different hostname or encap", c.Name)
		}
		return nil
	}
	for _, e := range c.Encaps {
		if other, used := ends[e]; used {
			return fmt.Errorf("tunnel end %s of chassis %s already belongs to chassis %s", e.IP, c.Name, other)
		}
	}
	return nil
}

func parse(port *nbdb.LogicalSwitchPort) (Chassis, error) {
	c := Chassis{Name: port.Options[names.RequestedChassis], Hostname: port.ExternalIDs[names.RemoteHostname]}
	switch {
	case c.Name == "":
		return c, fmt.Errorf("option %s is missing", names.RequestedChassis)
	case strings.Contains(c.Name, ","):
		return c, fmt.Errorf("option %s names several chassis: %q", names.RequestedChassis, c.Name)
	}
	text := port.ExternalIDs[names.RemoteEncaps]
	for one := range strings.SplitSeq(text, ",") {
		end, err := parseEncap(one)
		if err != nil {
			return c, fmt.Errorf("external_ids:%s %q: %w", names.RemoteEncaps, text, err)
		}
		c.Encaps = append(c.Encaps, end)
	}
	slices.SortFunc(c.Encaps, func(a, b Encap) int { return a.IP.Compare(b.IP) })
	c.Encaps = slices.Compact(c.Encaps)
	return c, nil
}

func parseEncap(text string) (Encap, error) {
	kind, address, _ := strings.Cut(strings.TrimSpace(text), " ")
	if kind != sbdb.EncapTypeGeneve {
		return Encap{}, fmt.Errorf("want %q and an address, separated by a space", sbdb.EncapTypeGeneve)
	}
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return Encap{}, err
	}
	if ip = ip.Unmap(); ip.Zone() != "" || ip.IsUnspecified() || ip.IsMulticast() {
		return Encap{}, fmt.Errorf("%s cannot be a tunnel end", ip)
	}
	return Encap{IP: ip}, nil
}

// Unit returns the rows of the chassis.
func (c Chassis) Unit() unit.Unit {
	row := &sbdb.Chassis{UUID: unit.UUID(sbdb.ChassisTable, c.Name), Name: c.Name, Hostname: c.Hostname,
		OtherConfig: map[string]string{"is-remote": "true"}, ExternalIDs: map[string]string{}}
	u := unit.Unit{Key: unit.NewKey(kind, c.Name), Rows: []unit.Row{{Model: row}}}
	for _, e := range c.Encaps {
		end := &sbdb.Encap{UUID: unit.UUID(sbdb.EncapTable, c.Name+" "+sbdb.EncapTypeGeneve+" "+e.IP.String()), ChassisName: c.Name,
			Type: sbdb.EncapTypeGeneve, IP: e.IP.String(), Options: map[string]string{"csum": "true"}}
		row.Encaps = append(row.Encaps, end.UUID)
		u.Rows = append(u.Rows, unit.Row{Model: end})
	}
	return u
}
