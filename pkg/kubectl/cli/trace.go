package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/trace"
)

// traceCommand holds the flags of the command trace.
type traceCommand struct {
	cluster     *cluster
	protocol    string
	port        string
	family      string
	node        string
	allBackends bool
	reply       bool
	raw         bool
	with        bool
	files       []string
	output      string
}

const traceLong = `Show what the network does with a packet, and which object decides.

FROM is a pod, a node, an address outside, or "outside". TO is a pod, a service, a node, an address
or "outside":

  web-0, demo/web-0                 a pod
  svc/demo/web, web.demo.svc        a service, at its cluster IPs; from outside at its other addresses
  node/worker-1                     a node; with --port of a node port, that service
  192.0.2.10                        whoever has the address, or an address outside

The verdict is in the first line, and the packet's way below it. OVN decides: ovn-trace runs through
ovn-northd's flows beside the databases, in the pod of component "central". This requires permission
for "kubectl exec" in that pod. No packet is sent, and nothing is written.

In a cluster with zones, a packet is traced in the databases of the zone where it is: the zone of its
sender's node, or of the node by which a client outside enters, and from there on the zone of the node
that its tunnel leads to. With --zone, only the databases of that zone are read.

With --with -f FILE the answer is as if the manifests were applied: the API server and the operator plan
them, as kubectl weft plan does, and an ovn-northd of its own computes the flows in a copy of the
databases, which is removed afterwards. FROM and TO must exist already. In each zone on the way the
zone's operator plans them.

Exit codes: 0 allowed, 1 dropped or rejected, 2 unknown or an error. With several verdicts, the worst
counts.`

func newTrace(target *cluster) *cobra.Command {
	t := &traceCommand{cluster: target}
	c := &cobra.Command{
		Use:   "trace FROM TO",
		Short: "Show whether a packet arrives, by which way, and which object decides",
		Long:  traceLong,
		Example: `  kubectl weft trace demo/client demo/web-0 --port 8080
  kubectl weft trace demo/client svc/demo/web --all-backends
  kubectl weft trace outside node/worker-1 --port 30080
  kubectl weft trace demo/web-0 192.0.2.10 --protocol udp --port 53 --family IPv4 -o json
  kubectl weft trace demo/client demo/web-0 --port 8080 --with -f policy.yaml
  kubectl weft trace outside svc/demo/web -o svg > trace.svg`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("want two arguments, FROM and TO, not %d: %s", len(args), c.UseLine())
			}
			return nil
		},
		RunE:              func(c *cobra.Command, args []string) error { return t.run(c, args[0], args[1]) },
		ValidArgsFunction: target.completing(2, completion.ends),
	}
	flags := c.Flags()
	flags.StringVar(&t.protocol, "protocol", string(trace.TCP), "tcp, udp, sctp or icmp")
	flags.StringVar(&t.port, "port", "", "destination port; default: the only port of a service")
	flags.StringVar(&t.family, "family", "", "IPv4 or IPv6; default: both")
	flags.StringVar(&t.node, "node", "", "node by which clients outside enter; default: the destination's, or the first with a gateway")
	flags.BoolVar(&t.allBackends, "all-backends", false, "trace a packet to each backend of a service, instead of to one")
	flags.BoolVar(&t.reply, "reply", true, "also trace the reply")
	flags.BoolVar(&t.raw, "raw", false, "also show the output of ovn-trace")
	flags.BoolVar(&t.with, "with", false, "answer as if the manifests of -f were applied")
	flags.StringSliceVarP(&t.files, "filename", "f", nil, `files or folders with manifests for --with; "-" is standard input`)
	flags.StringVarP(&t.output, "output", "o", string(formatText), "text, json, dot or svg")
	completeWords(c, "output", "text", "json", "dot", "svg")
	completeWords(c, "protocol", string(trace.TCP), string(trace.UDP), string(trace.SCTP), string(trace.ICMP))
	completeWords(c, "family", "IPv4", "IPv6")
	completeFlag(c, "node", target.completing(unlimited, completion.nodes))
	return c
}

func (t *traceCommand) check() error {
	protocols := []trace.Protocol{trace.TCP, trace.UDP, trace.SCTP, trace.ICMP}
	if t.protocol = strings.ToLower(t.protocol); !slices.Contains(protocols, trace.Protocol(t.protocol)) {
		return fmt.Errorf("--protocol %q: want tcp, udp, sctp or icmp", t.protocol)
	}
	if !slices.Contains([]string{"", "IPv4", "IPv6"}, t.family) {
		return fmt.Errorf("--family %q: want IPv4 or IPv6", t.family)
	}
	if t.port != "" && t.protocol == string(trace.ICMP) {
		return fmt.Errorf("--port %s: ICMP has no ports", t.port)
	}
	if _, ok := answers[t.output]; !ok {
		return fmt.Errorf("invalid output %q: want text, json, dot or svg", t.output)
	}
	return t.checkWith()
}

func (t *traceCommand) run(c *cobra.Command, from, to string) error {
	if err := t.check(); err != nil {
		return err
	}
	a, err := t.answer(c.Context(), c.InOrStdin(), from, to)
	if err != nil {
		return err
	}
	return t.write(c, a)
}

// answer traces the packets that the arguments and flags describe. The flags have been checked. Manifests may come
// from in.
func (t *traceCommand) answer(ctx context.Context, in io.Reader, from, to string) (traceAnswer, error) {
	e, err := readEnds(ctx, t.cluster)
	if err != nil {
		return traceAnswer{}, err
	}
	questions, err := t.questions(ctx, e, from, to)
	if unasked, ok := errors.AsType[*trace.UnknownError](err); ok {
		return traceAnswer{Result: trace.Unknown, Why: unasked.Reason, Findings: []traceFinding{}}, nil
	}
	if err != nil {
		return traceAnswer{}, err
	}
	live, err := t.cluster.findTracers(ctx, e.zoned)
	if err != nil {
		return traceAnswer{}, err
	}
	tracer, notes, err := t.planned(ctx, in, live)
	if err != nil {
		return traceAnswer{}, err
	}
	findings, err := e.world.Trace(ctx, tracer, t.reply, questions...)
	if err != nil {
		return traceAnswer{}, err
	}
	stale, err := live.northdNotes(ctx)
	if err != nil {
		return traceAnswer{}, err
	}
	return newTraceAnswer(e.world, findings, slices.Concat(stale, notes(), e.notes(questions)), t.raw), nil
}

// readEnds reads the nodes of a cluster.
func readEnds(ctx context.Context, target *cluster) (*ends, error) {
	api, err := target.watchClient()
	if err != nil {
		return nil, err
	}
	namespace, err := target.contextNamespace()
	if err != nil {
		return nil, err
	}
	e := &ends{api: api, namespace: namespace}
	return e, e.readWorld(ctx)
}

// questions returns a question for each family that both ends have, and with --all-backends for each backend.
func (t *traceCommand) questions(ctx context.Context, e *ends, from, to string) ([]trace.Question, error) {
	q := trace.Question{Protocol: trace.Protocol(t.protocol), Entry: t.node}
	var err error
	e.port, e.protocol = t.port, t.protocol
	if q.From, err = e.read(ctx, from); err != nil {
		return nil, err
	}
	if q.To, err = e.read(ctx, to); err != nil {
		return nil, err
	}
	if err := e.checkEntry(t.node, q.From); err != nil {
		return nil, err
	}
	if q.From.Kind == trace.Service {
		return nil, fmt.Errorf("%s sends no packets: ask about one of its pods", q.From.Text(""))
	}
	if q.Port, err = portNumber(t.port, q.To, q.Protocol); err != nil {
		return nil, err
	}
	if q.To.Kind == trace.Node {
		if err := e.nodePort(ctx, &q); err != nil {
			return nil, err
		}
	}
	if q.Entry == "" {
		q.Entry = e.world.EntryTo(q.To)
	}
	if _, err := netip.ParseAddr(to); q.From.Kind == trace.Outside && err != nil {
		q = q.ForClients(e.world)
	}
	return t.each(e.world, q)
}

// checkEntry returns an error for a --node that does not exist, or by which the sender does not enter.
func (e *ends) checkEntry(node string, from trace.End) error {
	if node == "" {
		return nil
	}
	if _, ok := e.world[node]; !ok {
		return fmt.Errorf("--node %s: there is no node %[1]s with a NodeNetwork", node)
	}
	if from.Kind != trace.Outside {
		return fmt.Errorf("--node %s: %s is no client outside, and does not enter by a node", node, from.Text(""))
	}
	return nil
}

// each returns the question for each family and backend.
func (t *traceCommand) each(w trace.World, q trace.Question) ([]trace.Question, error) {
	var all []trace.Question
	for _, v6 := range []bool{false, true} {
		if wanted := map[bool]string{false: "IPv4", true: "IPv6"}[v6]; t.family != "" && t.family != wanted {
			continue
		}
		q.V6, q.Backend = v6, netip.AddrPort{}
		if t.family == "" && !q.Has(v6) {
			continue
		}
		backends := q.Candidates(w)
		if len(backends) == 0 {
			all = append(all, q)
			continue
		}
		if !t.allBackends {
			backends = backends[:1]
		}
		for _, q.Backend = range backends {
			all = append(all, q)
		}
	}
	if len(all) == 0 {
		return nil, &trace.UnknownError{Reason: fmt.Sprintf("%s and %s have no address of the same family: %v and %v", q.From.Text(""),
			q.To.Text(""), q.From.Addresses, q.To.Addresses)}
	}
	return all, nil
}

// notes are the problems of the whole network and of the nodes of a question, which no flow shows. Packets to the
// outside also concern egress IPs.
func (e *ends) notes(questions []trace.Question) (notes []string) {
	for _, q := range questions {
		nodes := []string{q.From.Node, q.To.Node}
		if q.From.Kind == trace.Outside {
			nodes = append(nodes, q.Entry)
		}
		if q.To.Balanced != nil {
			nodes = append(nodes, q.To.Balanced.Pods[q.Backend.Addr()].Node)
		}
		for _, name := range nodes {
			if nn := e.networks[name]; nn != nil {
				notes = append(notes, linesOf("node "+name, nn.Status.Problems)...)
			}
		}
		for _, p := range e.problems {
			if concerns(p, q, nodes) {
				notes = append(notes, linesOf(p.Object, []networkv1alpha1.Problem{p})...)
			}
		}
	}
	slices.Sort(notes)
	return slices.Compact(notes)
}

// concerns reports whether a problem of the ClusterNetwork's status is about the whole network, an egress IP of packets
// to the outside, or the tunnel to one of the nodes.
func concerns(p networkv1alpha1.Problem, q trace.Question, nodes []string) bool {
	switch {
	case strings.HasPrefix(p.Object, "ClusterNetwork/"):
		return true
	case strings.HasPrefix(p.Object, "EgressIP/"):
		return q.To.Kind == trace.Outside
	}
	return p.Reason == networkv1alpha1.ReasonTunnelSilent && slices.ContainsFunc(strings.Split(p.Object, ", "), func(object string) bool {
		return slices.Contains(nodes, strings.TrimPrefix(object, "NodeNetwork/"))
	})
}

// linesOf returns a line for each problem of an object.
func linesOf(object string, problems []networkv1alpha1.Problem) (lines []string) {
	for _, p := range problems {
		lines = append(lines, strings.TrimSuffix(fmt.Sprintf("%s: %s: %s -> %s", object, p.Reason, p.Message, p.NextStep), " -> "))
	}
	return lines
}

func (t *traceCommand) write(c *cobra.Command, a traceAnswer) error {
	if err := answers[t.output](c.OutOrStdout(), a); err != nil {
		return err
	}
	switch a.Result {
	case trace.Allowed:
		return nil
	case trace.Unknown:
		return errUnknown
	}
	return errDifferent
}
