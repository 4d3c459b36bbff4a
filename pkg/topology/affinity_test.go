package topology_test

import (
	"net/netip"
	"testing"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/topology"
)

// Each turn moves all backends by one place, so that a client that is balanced again by its address gets another one. A
// service without affinity has no turns.
func TestTurnsMoveBackends(t *testing.T) {
	vip := netip.MustParseAddrPort("10.96.0.10:80")
	s := facts.Service{Namespace: "demo", Name: "web", AffinityTimeout: 60, Ports: []facts.ServicePort{{
		Protocol: facts.TCP, Number: 80, VIPs: []facts.VIP{{AddrPort: vip, Reach: facts.ReachAll, From: facts.FromAll}},
	}}}
	for _, c := range []struct {
		turn     int
		backends []string
		want     string
	}{
		{7, nil, ""},
		{7, []string{"10.244.0.3:80"}, "10.244.0.3:80"},
		{0, []string{"10.244.1.4:80", "10.244.0.3:80"}, "10.244.0.3:80,10.244.1.4:80"},
		{1, []string{"10.244.1.4:80", "10.244.0.3:80"}, "10.244.1.4:80,10.244.0.3:80"},
		{5, []string{"10.244.0.1:80", "10.244.0.2:80", "10.244.0.3:80"}, "10.244.0.3:80,10.244.0.1:80,10.244.0.2:80"},
	} {
		s.Turn, s.Ports[0].Backends = c.turn, nil
		for _, text := range c.backends {
			s.Ports[0].Backends = append(s.Ports[0].Backends, facts.Backend{AddrPort: netip.MustParseAddrPort(text)})
		}
		lb := topology.ServiceUnit(s).Rows[0].Model.(*nbdb.LoadBalancer)
		if have := lb.Vips[vip.String()]; have != c.want {
			t.Errorf("turn %d of %v: %s, want %s", c.turn, c.backends, have, c.want)
		}
	}
}
