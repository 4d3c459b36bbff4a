//go:build e2e

package central

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/trace"
	"github.com/weft-network/weft/pkg/trace/tracer"
	"github.com/weft-network/weft/test/bench/figures"
)

// traces traces connections between pods of two nodes, as kubectl weft trace does: each first packet and the reply.
func (w *world) traces() {
	w.Helper()
	socket := func(s *ovndbtest.Server) string { return strings.TrimPrefix(s.Endpoint(), "unix:") }
	tracing := tracer.Tracer{Northbound: socket(w.central.NB), Southbound: socket(w.central.SB),
		Program: ovndbtest.Binary(w.T, "ovn-trace"), Dir: os.TempDir()}
	var took []time.Duration
	spent := children()
	for i := range *rounds {
		from := i * w.size.Zones
		to := from + (perNamespace/2-1)/w.size.Zones*w.size.Zones // of the same namespace and the same zone
		request := trace.Request{Packets: []trace.Packet{w.packet(from, to), w.packet(to, from)}}
		request.Packets[1].Reply = true
		began := time.Now()
		answer, err := tracing.Run(w.Context(), request)
		w.must(err)
		took = append(took, time.Since(began))
		for at, t := range answer.Traces {
			port := []string{w.port(to), w.port(from)}[at]
			if !strings.Contains(t.Text, `output to "`+port+`"`) {
				w.Fatalf("trace to port %s:\n%s", port, t.Text)
			}
		}
	}
	slices.Sort(took)
	w.note(took[len(took)/2].Seconds(), false, "trace between pods and back, s")
	w.note(figures.Milliseconds(children()-spent)/float64(*rounds), false, "trace between pods and back, CPU ms of ovn-trace")
}

func (w *world) port(pod int) string {
	return names.PodPort(names.DefaultNetwork, w.namespaceOf(pod), podName(pod))
}

// packet returns a packet from a pod to another one on another node.
func (w *world) packet(from, to int) trace.Packet {
	node := nodeName(w.nodeOf(from))
	return trace.Packet{Chassis: chassisName(w.nodeOf(from)), Inport: w.port(from), From: w.port(from), To: names.RouterToSwitch(node),
		Protocol: trace.TCP, Source: w.podAddress(from), Destination: w.podAddress(to), SourcePort: 33000, DestinationPort: 8080}
}

// children returns the CPU time of the processes that ended.
func children() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_CHILDREN, &used) // fails only for an unknown argument
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
