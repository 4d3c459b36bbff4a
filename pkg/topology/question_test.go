package topology_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/install/beside"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/ovn/wire"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/trace"
	"github.com/weft-network/weft/pkg/trace/tracer"
	"github.com/weft-network/weft/pkg/unit"
)

// TestQuestions loads each golden into real databases with ovn-northd and traces the golden's questions.
func TestQuestions(t *testing.T) {
	asked := 0
	for _, g := range goldens(t) {
		questions := lines(g.file("questions.txt"))
		if asked += len(questions); len(questions) == 0 {
			continue
		}
		t.Run(g.name, func(t *testing.T) {
			central := ovndbtest.StartCentral(t)
			e := engine(t, central.NB)
			for _, u := range g.units {
				settle(t, e, u)
			}
			central.Sync()
			r := newReader(t, g)
			tracing := tracer.Tracer{Northbound: socketOf(central.NB), Southbound: socketOf(central.SB),
				Program: ovndbtest.Binary(t, "ovn-trace"), Dir: filepath.Dir(socketOf(central.SB))}
			for _, line := range questions {
				r.checkQuestion(tracing, line)
			}
		})
	}
	if asked == 0 {
		t.Fatal("no golden has questions")
	}
}

// TestQuestionsAboutChanges traces every third of these questions in a copy of the databases, to which policies, services and
// egress IPs are applied as a plan. The answers are the same, and the live databases stay as they were.
func TestQuestionsAboutChanges(t *testing.T) {
	for _, g := range goldens(t) {
		questions := lines(g.file("questions.txt"))
		if len(questions) == 0 {
			continue
		}
		t.Run(g.name, func(t *testing.T) {
			central := ovndbtest.StartCentral(t)
			e := engine(t, central.NB)
			var held []unit.Unit
			for _, u := range g.units {
				if kind := u.Key.Kind(); kind == topology.KindNetwork || kind == topology.KindNode || kind == topology.KindPod {
					settle(t, e, u)
				} else {
					held = append(held, u)
				}
			}
			central.Sync()
			before := central.NB.Transactions()
			c := copyWith(t, central, e, held)
			nb, sb := c.Sockets()
			r := newReader(t, g)
			tracing := tracer.Tracer{Northbound: nb, Southbound: sb, Program: ovndbtest.Binary(t, "ovn-trace"), Dir: filepath.Dir(sb)}
			for i := 0; i < len(questions); i += 3 {
				r.checkQuestion(tracing, questions[i])
			}
			c.Stop()
			if _, err := os.Stat(filepath.Dir(nb)); !os.IsNotExist(err) {
				t.Errorf("the copy's folder is left: %v", err)
			}
			if n := central.NB.Transactions() - before; n != 0 {
				t.Errorf("%d transactions in the live database", n)
			}
		})
	}
}

// copyWith returns a copy of the databases to which units are applied, by the operations of a plan.
func copyWith(t *testing.T, central *ovndbtest.Central, e *ovndb.Engine, units []unit.Unit) *beside.Copy {
	t.Helper()
	planned, err := e.Operations(units)
	if err != nil {
		t.Fatal(err)
	}
	if len(planned) == 0 && len(units) > 0 {
		t.Error("the plan has no operations")
	}
	changes, err := wire.ParseOperations(planned)
	if err != nil {
		t.Fatal(err)
	}
	c, err := beside.StartCopy(t.Context(), beside.Source{NB: central.NB.Endpoint(), SB: central.SB.Endpoint(),
		RunDir: filepath.Dir(socketOf(central.NB)), Memory: 2 << 30, Programs: beside.Programs{
			OVSDBServer: ovndbtest.Binary(t, "ovsdb-server"), OVSDBTool: ovndbtest.Binary(t, "ovsdb-tool"),
			Northd: ovndbtest.Binary(t, "ovn-northd")}}, changes...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}

func socketOf(s *ovndbtest.Server) string { return strings.TrimPrefix(s.Endpoint(), "unix:") }

// questionReader reads the objects of a golden as the command reads them from the API server.
type questionReader struct {
	t        *testing.T
	world    trace.World
	pods     map[string]*corev1.Pod
	services map[string]*corev1.Service
	slices   []discoveryv1.EndpointSlice
	// routes have their static routers in their status. namespaces are the labels by namespace.
	routes     []networkv1alpha1.ExternalRoute
	namespaces map[string]labels.Set
}

func newReader(t *testing.T, g golden) *questionReader {
	r := &questionReader{t: t, world: g.ways, pods: map[string]*corev1.Pod{}, services: map[string]*corev1.Service{},
		namespaces: map[string]labels.Set{}}
	for _, doc := range strings.Split(g.file("objects.yaml"), "\n---\n") {
		var kind struct{ Kind string }
		r.decode(doc, &kind)
		switch kind.Kind {
		case "Pod":
			var pod corev1.Pod
			r.decode(doc, &pod)
			r.pods[pod.Namespace+"/"+pod.Name] = &pod
		case "Service":
			var service corev1.Service
			r.decode(doc, &service)
			r.services[service.Namespace+"/"+service.Name] = &service
		case "EndpointSlice":
			var slice discoveryv1.EndpointSlice
			r.decode(doc, &slice)
			r.slices = append(r.slices, slice)
		case "Namespace":
			var namespace corev1.Namespace
			r.decode(doc, &namespace)
			r.namespaces[namespace.Name] = namespace.Labels
		case "ExternalRoute":
			var route networkv1alpha1.ExternalRoute
			r.decode(doc, &route)
			for _, hop := range route.Spec.NextHops.Static {
				route.Status.NextHops = append(route.Status.NextHops,
					networkv1alpha1.ExternalNextHop{Address: networkv1alpha1.IP(hop.Address), BFD: hop.BFD})
			}
			r.routes = append(r.routes, route)
		}
	}
	r.setAddresses(g)
	return r
}

func (r *questionReader) decode(doc string, into any) {
	r.t.Helper()
	if err := yaml.Unmarshal([]byte(doc), into); err != nil {
		r.t.Fatal(err)
	}
}

// setAddresses gives pods the addresses of their ports, as kubelet does, and endpoints the pods that have them.
func (r *questionReader) setAddresses(g golden) {
	owners := map[string]*corev1.Pod{}
	for _, u := range g.units {
		for _, row := range u.Rows {
			port, ok := row.Model.(*nbdb.LogicalSwitchPort)
			namespace, name, isPod := strings.Cut(u.Key.Name(), "/")
			pod := r.pods[namespace+"/"+name]
			if !ok || !isPod || pod == nil || u.Key.Kind() != "pod" {
				continue
			}
			address, err := ovnexpr.ParsePortAddress(port.Addresses[0])
			if err != nil {
				r.t.Fatal(err)
			}
			for _, a := range address.Addresses {
				pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: a.String()})
				owners[a.String()] = pod
			}
		}
	}
	for i := range r.slices {
		for j := range r.slices[i].Endpoints {
			e := &r.slices[i].Endpoints[j]
			if pod := owners[e.Addresses[0]]; pod != nil {
				e.NodeName = &pod.Spec.NodeName
				e.TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name}
			}
		}
	}
}

func (r *questionReader) service(key string) trace.End {
	service := r.services[key]
	if service == nil {
		r.t.Fatalf("there is no service %s", key)
	}
	var slices []discoveryv1.EndpointSlice
	for _, s := range r.slices {
		if s.Namespace+"/"+s.Labels[discoveryv1.LabelServiceName] == key {
			slices = append(slices, s)
		}
	}
	end, err := trace.ServiceEnd(service, slices, r.world)
	if err != nil {
		r.t.Fatal(err)
	}
	return end
}

// end reads "demo/web-0", "svc/demo/web", "svc/demo/web@192.0.2.10", "node/n1", "node/n1@svc/demo/web" (a node port),
// "node/n1@pod/demo/web-0:80" (a host port), "nobody@10.96.9.9" (a cluster IP that no service has) or an address.
func (r *questionReader) end(text string) trace.End {
	what, at, _ := strings.Cut(text, "@")
	if what == "nobody" {
		return trace.UnusedEnd(netip.MustParseAddr(at))
	}
	if address, err := netip.ParseAddr(what); err == nil {
		return trace.OutsideEnd(address)
	}
	if name, ok := strings.CutPrefix(what, "node/"); ok {
		end := trace.NodeEnd(name, r.world)
		if key, ok := strings.CutPrefix(at, "pod/"); ok {
			key, number, _ := strings.Cut(key, ":")
			ports, _ := facts.HostPorts(r.pods[key])
			for _, port := range ports {
				if strconv.Itoa(int(port.Port)) == number {
					end = end.HostPort(r.pods[key], port)
				}
			}
		} else if at != "" {
			end = end.NodePort(r.service(strings.TrimPrefix(at, "svc/")).Balanced)
		}
		return end
	}
	if key, ok := strings.CutPrefix(what, "svc/"); ok {
		end := r.service(key)
		if at != "" {
			end = end.At(netip.MustParseAddr(at))
		}
		return end
	}
	if r.pods[what] == nil {
		r.t.Fatalf("there is no pod %s", what)
	}
	end := trace.PodEnd(r.pods[what])
	for i := range r.routes {
		for _, hop := range facts.NextHopsOf(r.routes[i:i+1], r.namespaces[end.Namespace], r.pods[what].Labels) {
			end.Routers = append(end.Routers, trace.Router{NextHop: hop, Route: r.routes[i].Name})
		}
	}
	return end
}

// checkQuestion checks one line: "FROM TO PROTOCOL PORT FAMILY | result: words of the verdict | words of a hop | ...".
func (r *questionReader) checkQuestion(tracing trace.Tracer, line string) {
	r.t.Helper()
	parts := strings.Split(line, " | ")
	words := strings.Fields(parts[0])
	port, err := strconv.ParseUint(words[3], 10, 16)
	if err != nil || len(parts) < 2 {
		r.t.Fatalf("%q is not FROM TO PROTOCOL PORT FAMILY | verdict", line)
	}
	q := trace.Question{From: r.end(words[0]), To: r.end(words[1]), Protocol: trace.Protocol(words[2]), Port: uint16(port),
		V6: words[4] == "IPv6"}
	if len(words) > 5 {
		q.Entry = words[5]
	}
	if all := q.Candidates(r.world); len(all) > 0 {
		q.Backend = all[0]
	}
	found, err := r.world.Trace(r.t.Context(), tracing, true, q)
	if err != nil {
		r.t.Fatalf("%s: %v", line, err)
	}
	f := found[0]
	said := []string{fmt.Sprintf("%s: %s", f.Verdict.Result, f.Verdict.Why)}
	for _, h := range f.Hops {
		said = append(said, "  "+h.What)
	}
	for _, h := range f.Reply {
		said = append(said, "  reply: "+h.What)
	}
	all := strings.Join(said, "\n")
	for i, want := range parts[1:] {
		if got := map[bool]string{true: said[0], false: all}[i == 0]; !strings.Contains(got, strings.TrimSpace(want)) {
			r.t.Errorf("%s\nis answered without %q:\n%s\n", parts[0], want, all)
			if os.Getenv("TRACE_TEXT") != "" {
				r.t.Log(strings.Join(f.Text, "\n"))
			}
		}
	}
}
