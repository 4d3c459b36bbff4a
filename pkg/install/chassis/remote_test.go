package chassis_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weft-network/weft/pkg/install/chassis"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
)

// port returns a port of type remote.
func port(name, chassis, encaps string) *nbdb.LogicalSwitchPort {
	return &nbdb.LogicalSwitchPort{Name: name, Type: names.RemotePort, Options: map[string]string{names.RequestedChassis: chassis},
		ExternalIDs: map[string]string{names.RemoteEncaps: encaps, names.RemoteHostname: "host-" + chassis}}
}

func list(ports ...*nbdb.LogicalSwitchPort) []*nbdb.LogicalSwitchPort { return ports }

func TestCompute(t *testing.T) {
	other := port("a", "n1", "geneve 192.0.2.1")
	other.Type = "router"
	renamed := port("b", "n1", "geneve 192.0.2.1")
	renamed.ExternalIDs[names.RemoteHostname] = "another"
	for name, c := range map[string]struct {
		ports []*nbdb.LogicalSwitchPort
		want  string // chassis, separated by semicolons
		bad   string // port: part of the reason
	}{
		"no ports":        {},
		"of another type": {ports: list(other)},
		"one":             {ports: list(port("a", "n1", "geneve 192.0.2.1")), want: "n1 host-n1 192.0.2.1"},
		"sorted by name": {ports: list(port("a", "n2", "geneve 192.0.2.2"), port("b", "n1", "geneve 192.0.2.1")),
			want: "n1 host-n1 192.0.2.1; n2 host-n2 192.0.2.2"},
		"two tunnel ends": {ports: list(port("a", "n1", "geneve 2001:db8::1, geneve 192.0.2.1")),
			want: "n1 host-n1 192.0.2.1 2001:db8::1"},
		"an end twice": {ports: list(port("a", "n1", "geneve 192.0.2.1,geneve ::ffff:192.0.2.1")),
			want: "n1 host-n1 192.0.2.1"},
		"two equal ports": {ports: list(port("b", "n1", "geneve 192.0.2.1"), port("a", "n1", "geneve 192.0.2.1")),
			want: "n1 host-n1 192.0.2.1"},
		"no chassis":        {ports: list(port("a", "", "geneve 192.0.2.1")), bad: "a: requested-chassis is missing"},
		"several chassis":   {ports: list(port("a", "n1,n2", "geneve 192.0.2.1")), bad: "a: several chassis"},
		"no encap":          {ports: list(port("a", "n1", "")), bad: `a: want "geneve" and an address`},
		"another type":      {ports: list(port("a", "n1", "vxlan 192.0.2.1")), bad: `a: want "geneve" and an address`},
		"no address":        {ports: list(port("a", "n1", "geneve")), bad: "a: unable to parse IP"},
		"not an address":    {ports: list(port("a", "n1", "geneve n1.example")), bad: "a: ParseAddr"},
		"no tunnel end":     {ports: list(port("a", "n1", "geneve 0.0.0.0")), bad: "a: cannot be a tunnel end"},
		"with an interface": {ports: list(port("a", "n1", "geneve fe80::1%eth0")), bad: "a: cannot be a tunnel end"},
		"one end is bad":    {ports: list(port("a", "n1", "geneve 192.0.2.1,")), bad: `a: want "geneve" and an address`},
		"a used tunnel end": {ports: list(port("b", "n2", "geneve 192.0.2.1"), port("a", "n1", "geneve 192.0.2.1")),
			want: "n1 host-n1 192.0.2.1", bad: "b: already belongs to chassis n1"},
		"another hostname": {ports: list(renamed, port("a", "n1", "geneve 192.0.2.1")),
			want: "n1 host-n1 192.0.2.1", bad: "b: different hostname or encap"},
		"another tunnel end": {ports: list(port("a", "n1", "geneve 192.0.2.1"), port("b", "n1", "geneve 192.0.2.9")),
			want: "n1 host-n1 192.0.2.1", bad: "b: different hostname or encap"},
		"bad ports harm none": {ports: list(port("a", "n1", "geneve"), port("b", "n1", "geneve 192.0.2.1")),
			want: "n1 host-n1 192.0.2.1", bad: "a: unable to parse IP"},
	} {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(c.ports)
			found, problems := chassis.Compute(c.ports)
			if got := describe(found); got != c.want {
				t.Errorf("chassis %q, want %q", got, c.want)
			}
			if got := fmt.Sprint(problems); !isExpected(problems, c.bad) {
				t.Errorf("problems %s, want %q", got, c.bad)
			}
			if !slices.Equal(before, c.ports) {
				t.Error("the ports' order is changed")
			}
		})
	}
}

func describe(all []chassis.Chassis) string {
	texts := make([]string, 0, len(all))
	for _, c := range all {
		text := c.Name + " " + c.Hostname
		for _, e := range c.Encaps {
			text += " " + e.IP.String()
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

// isExpected reports whether there is one problem, of the port and with the reason in bad, or none if bad is empty.
func isExpected(problems []chassis.Problem, bad string) bool {
	name, reason, _ := strings.Cut(bad, ": ")
	if bad == "" {
		return len(problems) == 0
	}
	return len(problems) == 1 && problems[0].Port == name && strings.Contains(problems[0].Reason, reason)
}
