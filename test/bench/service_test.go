package bench

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/facts"

	corev1 "k8s.io/api/core/v1"

	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

const (
	services  = 1000
	endpoints = 10
	// switches is the number of nodes with services. Each has the group, but not each service.
	switches = 100
	// changes is the number of measured endpoint changes, one after the other.
	changes = 200
)

// serviceUnit returns a service with two protocols; version moves its last endpoint.
func serviceUnit(i, version int) unit.Unit {
	s := facts.Service{Namespace: "bench", Name: fmt.Sprintf("s%d", i)}
	for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP} {
		port := facts.ServicePort{Protocol: protocol,
			VIPs: []facts.VIP{{AddrPort: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 96, byte(i / 256), byte(i)}), 80),
				Reach: facts.ReachAll, From: facts.FromAll}}}
		for n := range endpoints {
			host := byte(3 + n)
			if n == endpoints-1 {
				host += byte(version)
			}
			port.Backends = append(port.Backends,
				facts.Backend{AddrPort: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 128, byte(i), host}),
					8080)})
		}
		s.Ports = append(s.Ports, port)
	}
	return topology.ServiceUnit(s)
}

// BenchmarkServices writes 1,000 services with 10 endpoints and two protocols to databases with 100 nodes. Then it
// changes endpoints one after the other.
func BenchmarkServices(b *testing.B) {
	for range b.N {
		central := ovndbtest.StartCentral(b)
		c := &counter{}
		e := start(b, central.NB, c)
		apply(b, e, 1, func(int) unit.Unit {
			return topology.NetworkUnit(facts.Network{Join: []netip.Prefix{netip.MustParsePrefix("100.64.0.0/16")}})
		})
		apply(b, e, switches, nodeUnit)
		c.take()
		began := time.Now()
		apply(b, e, services, func(i int) unit.Unit { return serviceUnit(i, 0) })
		b.ReportMetric(time.Since(began).Seconds(), "write-s")
		b.ReportMetric(float64(c.take())/services, "txns/service")
		central.Sync()
		b.ReportMetric(rowsPerService(central.NB, "Load_Balancer"), "NB-rows/service")
		b.ReportMetric(rowsPerService(central.SB, "Load_Balancer"), "SB-rows/service")
		took := make([]time.Duration, 0, changes)
		for i := range changes {
			began := time.Now()
			if err := e.Apply(context.Background(), serviceUnit(i, 1)); err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		b.ReportMetric(float64(c.take())/changes, "txns/change")
		b.ReportMetric(float64(took[changes/2].Microseconds())/1000, "change-p50-ms")
		b.ReportMetric(float64(took[changes*99/100].Microseconds())/1000, "change-p99-ms")
	}
}

func rowsPerService(db *ovndbtest.Server, table string) float64 {
	return float64(len(strings.Fields(db.Ctl("--bare", "--columns=_uuid", "list", table)))) / services
}
