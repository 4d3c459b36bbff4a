package tracer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/wire"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/trace"
)

// Tracer traces packets through the flows of a southbound database.
type Tracer struct {
	// Northbound and Southbound are the paths of the databases' sockets.
	Northbound, Southbound string
	// Program is the path of ovn-trace.
	Program string
	// Northd is the path of ovn-northd's control socket. If empty, ovn-northd's pid file in Dir names it.
	Northd string
	// Dir is the folder of ovn-northd's control socket and of temporary sockets. Its path must be short.
	Dir string
}

// foreignMAC is the MAC of a sender outside.
const foreignMAC = "02:00:00:00:00:01"

// clusterRouter is the port of the cluster router whose MAC gateway routers learn.
var clusterRouter = names.RouterToJoin(names.ClusterRouter)

// manyStates is more than a packet passes conntrack.
const manyStates = 16

// Run traces the packets of a request.
func (t Tracer) Run(ctx context.Context, request trace.Request) (trace.Answer, error) {
	answer := trace.Answer{Traces: make([]trace.Traced, len(request.Packets))}
	if err := t.ports(ctx, request.Ports, &answer); err != nil {
		return answer, err
	}
	if request.Northd {
		var err error
		if answer.Northd, err = t.northd(ctx); err != nil {
			return answer, err
		}
	}
	if len(request.Packets) == 0 {
		return answer, nil
	}
	know, err := t.learn(ctx, request)
	if err != nil {
		return answer, err
	}
	used, err := t.all(ctx, know, request.Packets, answer.Traces)
	if err != nil {
		return answer, err
	}
	if err := t.watch(ctx, request.Packets, answer.Traces); err != nil {
		return answer, err
	}
	return answer, t.name(ctx, used, &answer)
}

// watch reads which routers outside do not answer BFD. ovn-northd writes the status, and then leaves out the routes to them.
func (t Tracer) watch(ctx context.Context, packets []trace.Packet, traces []trace.Traced) error {
	for i, p := range packets {
		if p.Watches == "" {
			continue
		}
		found, err := read(ctx, t.Northbound, northbound, selectIs("BFD", "logical_port", p.Watches, "dst_ip", "status"))
		if err != nil {
			return err
		}
		for _, session := range found[0] {
			router, err := netip.ParseAddr(session.Text("dst_ip"))
			if status := session.Text("status"); err == nil && (status == "down" || status == "admin_down") {
				traces[i].Silent = append(traces[i].Silent, router)
			}
		}
	}
	return nil
}

// concurrent is the number of ovn-trace processes at a time. Each reads all logical flows.
const concurrent = 4

// all traces packets and returns the flows that have a row behind them.
func (t Tracer) all(ctx context.Context, know knowledge, packets []trace.Packet, traces []trace.Traced) ([]flow, error) {
	flows, failures := make([][]flow, len(packets)), make([]error, len(packets))
	slots := make(chan struct{}, concurrent)
	var running sync.WaitGroup
	for i, p := range packets {
		if traces[i].Missing = know.missing(p); len(traces[i].Missing) > 0 {
			continue
		}
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			flows[i], failures[i] = t.trace(ctx, know, packets, i, &traces[i])
			for j := range flows[i] {
				flows[i][j].trace = i
			}
		})
	}
	running.Wait()
	return slices.Concat(flows...), errors.Join(failures...)
}

// ports reads the states of ports.
func (t Tracer) ports(ctx context.Context, ports []string, answer *trace.Answer) error {
	for _, port := range ports {
		nb, err := read(ctx, t.Northbound, northbound, selectIs("Logical_Switch_Port", "name", port))
		if err != nil {
			return err
		}
		sb, err := read(ctx, t.Southbound, southboundName, selectIs("Port_Binding", "logical_port", port, "chassis", "up"))
		if err != nil {
			return err
		}
		state := trace.PortState{Northbound: len(nb[0]) > 0, Southbound: len(sb[0]) > 0}
		if state.Southbound {
			state.Claimed, state.Up = sb[0][0].Reference("chassis") != "", sb[0][0].True("up")
		}
		if answer.Ports == nil {
			answer.Ports = map[string]trace.PortState{}
		}
		answer.Ports[port] = state
	}
	return nil
}

// knowledge is what the packets need of the southbound database.
type knowledge struct {
	macs       map[string]string            // port -> MAC
	datapathOf map[string]string            // port -> UUID of its datapath
	datapaths  map[string]string            // name of a datapath -> UUID
	names      map[string]string            // UUID of a datapath -> name
	variables  map[string]map[string]string // chassis -> template variable -> value
}

// learn reads the ports and the template variables of the packets.
func (t Tracer) learn(ctx context.Context, request trace.Request) (knowledge, error) {
	know := knowledge{macs: map[string]string{}, datapathOf: map[string]string{}, datapaths: map[string]string{},
		names: map[string]string{}, variables: map[string]map[string]string{}}
	operations := []wire.Operation{selectAll("Chassis_Template_Var", "chassis", "variables"), selectAll("Datapath_Binding", "external_ids")}
	asked := map[string]bool{}
	for _, p := range append([]trace.Packet{{To: clusterRouter}}, request.Packets...) {
		for _, port := range []string{p.Inport, p.From, p.To} {
			if port != "" && !asked[port] {
				asked[port] = true
				operations = append(operations, selectIs("Port_Binding", "logical_port", port, "logical_port", "mac", "datapath"))
			}
		}
	}
	found, err := read(ctx, t.Southbound, southboundName, operations...)
	if err != nil {
		return know, err
	}
	for _, r := range found[0] {
		know.variables[r.Text("chassis")] = r.Pairs("variables")
	}
	for _, r := range found[1] {
		name := r.Pairs("external_ids")["name"]
		know.datapaths[name], know.names[r.UUID()] = r.UUID(), name
	}
	for _, rows := range found[2:] {
		for _, r := range rows {
			port := r.Text("logical_port")
			know.macs[port], _, _ = strings.Cut(strings.Join(r.Texts("mac"), " "), " ")
			know.datapathOf[port] = r.Reference("datapath")
		}
	}
	return know, nil
}

// missing returns the ports of a packet that the database does not have.
func (k knowledge) missing(p trace.Packet) (ports []string) {
	for _, port := range []string{p.Inport, p.From, p.To} {
		if _, ok := k.macs[port]; !ok && port != "" && !slices.Contains(ports, port) {
			ports = append(ports, port)
		}
	}
	return ports
}

// flow is a flow of a trace with the start of the UUID of the row behind it.
type flow struct {
	trace       int
	stage, uuid string
	port        string // by which the packet enters or leaves the switch
	row         string
}

// trace traces one of the packets and returns the flows that have a row behind them.
func (t Tracer) trace(ctx context.Context, know knowledge, all []trace.Packet, which int, traced *trace.Traced) ([]flow, error) {
	p := all[which]
	fill := filling{variables: know.variables[p.Chassis], backend: p.Backend, restore: p.Restore}
	if p.Hairpin {
		addresses := topology.HairpinAddresses()
		fill.hairpin = addresses[slices.IndexFunc(addresses, func(a netip.Addr) bool { return a.Is6() == p.Source.Is6() })]
	}
	reads := know.around(all)
	reads.addresses[fill.hairpin] = true
	flows, parsed, err := t.within(ctx, know, &reads, p, fill, traced)
	fill.hiding = hiding(parsed)
	if err != nil || !parsed.Unresolved && len(fill.hiding) == 0 {
		return flows, err
	}
	if traced.Unresolved = parsed.Unresolved; parsed.Unresolved {
		fill.resolved = know.macs[clusterRouter]
	}
	flows, _, err = t.within(ctx, know, &reads, p, fill, traced)
	return flows, err
}

// within runs ovn-trace until no row was left out that the packet needs. It adds such rows to reads.
func (t Tracer) within(ctx context.Context, know knowledge, reads *reads, p trace.Packet, fill filling,
	traced *trace.Traced) ([]flow, trace.Trace, error) {
	for {
		only, err := t.narrow(ctx, know, *reads)
		if err != nil {
			return nil, trace.Trace{}, err
		}
		flows, parsed, err := t.once(ctx, know, p, fill, only, traced)
		if err != nil || !reads.learn(know, only.left, traced.Text) {
			return flows, parsed, err
		}
	}
}

// hiding returns the routers whose load balancers hide the client behind the router's own address.
func hiding(t trace.Trace) (routers []string) {
	for _, s := range t.Steps {
		if slices.Contains(s.Actions, "flags.force_snat_for_lb = 1;") && !slices.Contains(routers, s.Datapath) {
			routers = append(routers, s.Datapath)
		}
	}
	return routers
}

// once runs ovn-trace once.
func (t Tracer) once(ctx context.Context, know knowledge, p trace.Packet, fill filling, only narrowing,
	traced *trace.Traced) ([]flow, trace.Trace, error) {
	dir, err := os.MkdirTemp(t.Dir, "weft-trace-")
	if err != nil {
		return nil, trace.Trace{}, err
	}
	defer os.RemoveAll(dir)
	r, err := newRelay(dir, southbound(t.Southbound), fill, only)
	if err != nil {
		return nil, trace.Trace{}, err
	}
	traced.Text, err = t.run(ctx, r.remote(), know, p)
	r.close()
	if err != nil {
		return nil, trace.Trace{}, err
	}
	parsed, err := trace.Parse(traced.Text)
	if err != nil {
		return nil, parsed, err
	}
	var flows []flow
	for _, step := range parsed.Steps {
		if len(tablesOf(step.Stage)) == 0 || step.Flow == "" {
			continue
		}
		row, err := r.hint(step.Flow)
		if err != nil {
			return nil, parsed, err
		}
		if row != "" {
			f := flow{stage: step.Stage, uuid: step.Flow, row: row, port: step.Inport}
			if strings.HasPrefix(step.Stage, "ls_out") {
				f.port = step.Outport
			}
			flows = append(flows, f)
		}
	}
	return flows, parsed, nil
}

func (t Tracer) run(ctx context.Context, remote string, know knowledge, p trace.Packet) (string, error) {
	from := foreignMAC
	if p.From != "" {
		from = know.macs[p.From]
	}
	state := "--ct=new"
	if p.Reply {
		state = "--ct=est,rpl"
	}
	args := append([]string{"--db=" + remote, "--no-leader-only", "--detailed"}, slices.Repeat([]string{state}, manyStates)...)
	cmd := exec.CommandContext(ctx, t.Program, append(args, p.Microflow(from, know.macs[p.To]))...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("ovn-trace: %w: %s", err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}

// tablesOf returns the northbound tables that a stage's flows may come from.
func tablesOf(stage string) []string {
	switch {
	case strings.Contains(stage, "_acl_"):
		return []string{"ACL"}
	case stage == "lr_in_dnat":
		return []string{"Load_Balancer", "NAT"}
	case strings.HasSuffix(stage, "_lb"), stage == "lr_in_defrag":
		return []string{"Load_Balancer"}
	case strings.Contains(stage, "snat"):
		return []string{"NAT"}
	case stage == "lr_in_ip_routing":
		return []string{"Logical_Router_Static_Route"}
	case stage == "lr_in_policy":
		return []string{"Logical_Router_Policy"}
	}
	return nil
}
