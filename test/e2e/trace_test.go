//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/poll"
)

// traced is the namespace of the pods that questions are about.
const traced = "e2e-traced"

// Questions of a run, and between two changes of the policies.
const (
	usualQuestions    = 40
	questionsPerRound = 20
)

// accuracy is the fixture of TestTraceIsRight.
type accuracy struct {
	w        *weft
	random   *rand.Rand
	pods     []*corev1.Pod
	services []*corev1.Service
	policies []*networkingv1.NetworkPolicy
	firewall *networkv1alpha1.EgressFirewall
	verdicts map[string]int // result -> questions
}

// TestTraceIsRight runs kubectl weft trace with random questions, and sends a packet for each. Verdict and packet must agree,
// and a drop must name a policy of the test that is about one of the ends. WEFT_E2E_QUESTIONS is the number of
// questions, WEFT_E2E_SEED the seed.
func TestTraceIsRight(t *testing.T) {
	seed, questions := numberFrom(t, "WEFT_E2E_SEED", 1), numberFrom(t, "WEFT_E2E_QUESTIONS", usualQuestions)
	a := newAccuracy(t, uint64(seed))
	for asked := 0; asked < questions; {
		a.changePolicies(t)
		for range min(questionsPerRound, questions-asked) {
			a.check(t)
			asked++
		}
	}
	t.Logf("seed %d: %d questions, verdicts %v, all as the packets", seed, questions, a.verdicts)
	if questions >= usualQuestions && (a.verdicts["allowed"] == 0 || a.verdicts["dropped"] == 0) {
		t.Errorf("the questions were too uniform: %v", a.verdicts)
	}
}

func numberFrom(t *testing.T, name string, usual int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	number, err := strconv.Atoi(text)
	must(t, err)
	return number
}

func newAccuracy(t *testing.T, seed uint64) *accuracy {
	t.Helper()
	a := &accuracy{w: newWeft(t), random: rand.New(rand.NewPCG(seed, seed)), verdicts: map[string]int{}}
	bed.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: traced}})
	eventually(t, readyTimeout, func() error {
		return bed.api.Get(t.Context(), types.NamespacedName{Namespace: traced, Name: "default"}, &corev1.ServiceAccount{})
	})
	for _, label := range []string{"red", "green", "blue"} {
		for _, node := range []string{"n1", "n2"} {
			p := labelled(bed.peerPod(label+"-"+node, node), label)
			p.Namespace = traced
			a.pods = append(a.pods, p)
		}
	}
	for _, s := range []*corev1.Service{service("red", "red", nodePorts), service("green", "green"),
		service("green-local", "green", nodePorts, local), service("nobody", "nobody")} {
		s.Namespace = traced
		a.services = append(a.services, s)
		bed.create(t, s)
	}
	bed.run(t, a.pods...)
	bed.serveOn(t, lab.Outside().Name)
	return a
}

func nodePorts(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeNodePort }

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// changePolicies replaces the policies by random ones.
func (a *accuracy) changePolicies(t *testing.T) {
	t.Helper()
	for _, p := range a.policies {
		bed.remove(t, p)
	}
	if a.firewall != nil {
		bed.remove(t, a.firewall)
	}
	a.policies, a.firewall = nil, nil
	for i := range a.random.IntN(3) {
		p := a.policy(fmt.Sprintf("random-%d", i))
		a.policies = append(a.policies, p)
		bed.create(t, p)
	}
	if a.random.IntN(3) == 0 {
		out := both(lab.Outside())
		a.firewall = &networkv1alpha1.EgressFirewall{ObjectMeta: metav1.ObjectMeta{Namespace: traced, Name: networkv1alpha1.EgressFirewallName},
			Spec: networkv1alpha1.EgressFirewallSpec{Egress: []networkv1alpha1.EgressFirewallRule{deny(cidr(pick(a.random, out...)))}}}
		bed.create(t, a.firewall)
	}
}

// policy returns a random policy: who is isolated, in which directions, and who may pass.
func (a *accuracy) policy(name string) *networkingv1.NetworkPolicy {
	labels := []string{"red", "green", "blue"}
	p := policy(name, pick(a.random, metav1.LabelSelector{}, app(pick(a.random, labels...)), app(pick(a.random, labels...))))
	p.Namespace = traced
	peers := []networkingv1.NetworkPolicyPeer{{PodSelector: ptr(app(pick(a.random, labels...)))}}
	if a.random.IntN(3) == 0 {
		peers = append(peers, block(pick(a.random, both(lab.Outside())...)))
	}
	protocol, port := pick(a.random, corev1.ProtocolTCP, corev1.ProtocolUDP), intstr.FromInt32(whoPort)
	ports := []networkingv1.NetworkPolicyPort{{Protocol: &protocol, Port: &port}}
	if a.random.IntN(2) == 0 {
		ports = nil
	}
	if a.random.IntN(3) > 0 {
		p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeIngress)
		p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: peers, Ports: ports}}
	}
	if len(p.Spec.PolicyTypes) == 0 || a.random.IntN(3) == 0 {
		p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		p.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{{To: peers, Ports: ports}}
	}
	return p
}

// sending is a question with its packet.
type sending struct {
	from   caller
	labels []string // app labels of the pods at the ends
	args   []string
	call   calls
}

// question returns a random question.
func (a *accuracy) question(t *testing.T) sending {
	v6, protocol := a.random.IntN(2) == 1, pick(a.random, "tcp", "udp")
	family := map[bool]string{false: "IPv4", true: "IPv6"}[v6]
	q := sending{}
	from, onHost, outside := "", a.random.IntN(6) == 0, a.random.IntN(6) == 0
	switch sender := pick(a.random, a.pods...); {
	case outside:
		from, q.from = family2(both(lab.Outside()), v6).String(), bed.hostCaller(lab.Outside().Name)
	case onHost:
		from, q.from = "node/"+sender.Spec.NodeName, bed.hostCaller(sender.Spec.NodeName)
	default:
		from, q.from, q.labels = traced+"/"+sender.Name, bed.podCaller(sender), []string{sender.Labels["app"]}
	}
	to, address := a.destination(t, &q, protocol, v6, onHost, outside)
	q.args = []string{"trace", from, to, "--protocol", protocol, "--family", family,
		"--port", strconv.Itoa(int(address.Port())), "-o", "json"}
	q.call = calls{Protocol: protocol, To: address.String(), Count: 2}
	return q
}

func family2(addresses []netip.Addr, v6 bool) netip.Addr {
	return addresses[slices.IndexFunc(addresses, func(a netip.Addr) bool { return a.Is6() == v6 })]
}

// destination returns a random destination: the argument of trace, and its address. From outside only node ports are
// reachable, and OVN does not carry what a host sends outside.
func (a *accuracy) destination(t *testing.T, q *sending, protocol string, v6, onHost, outside bool) (string, netip.AddrPort) {
	kind := pick(a.random, "pod", "pod", "service", "service", "node port", "outside")
	if outside {
		kind = "node port"
	}
	switch {
	case kind == "node port":
		s := pick(a.random, a.services[0], a.services[2])
		node := pick(a.random, "n1", "n2")
		entry := entries(t, s)[nodePort(node)]
		q.labels = append(q.labels, s.Spec.Selector["app"])
		return "node/" + node, netip.AddrPortFrom(family2(entry.addresses, v6), entry.port(protocol))
	case kind == "outside" && !onHost:
		return family2(both(lab.Outside()), v6).String(), netip.AddrPortFrom(family2(both(lab.Outside()), v6), whoPort)
	case kind == "service":
		s := pick(a.random, a.services...)
		q.labels = append(q.labels, s.Spec.Selector["app"])
		return "svc/" + traced + "/" + s.Name, netip.AddrPortFrom(family2(addressList(s.Spec.ClusterIPs...), v6), 80)
	}
	p := pick(a.random, a.pods...)
	q.labels = append(q.labels, p.Labels["app"])
	return traced + "/" + p.Name, netip.AddrPortFrom(family2(addressesOf(p), v6), whoPort)
}

// traceVerdict is the part of the command's answer that the test judges.
type traceVerdict struct {
	Result   string
	Findings []struct {
		Why string
		By  struct{ Kind, Namespace, Name string }
	}
}

// check runs a question and sends its packet until both agree, because a policy takes a moment to reach all nodes.
func (a *accuracy) check(t *testing.T) {
	t.Helper()
	q := a.question(t)
	var last string
	err := poll.Slowly(t.Context(), recoveryTimeout, func() error {
		out, errs, _ := a.w.run("", q.args...)
		var v traceVerdict
		if err := json.Unmarshal([]byte(out), &v); err != nil {
			return fmt.Errorf("%w: %s%s", err, out, errs)
		}
		became, err := q.from.callAll(t.Context(), []calls{q.call})
		if err != nil {
			return err
		}
		reached := !slices.ContainsFunc(became[0], func(c called) bool { return c.Error != "" })
		if last = v.Result; v.Result == "unknown" {
			return a.mayBeUnknown(v)
		}
		if (v.Result == "allowed") != reached {
			return fmt.Errorf("the packet arrives: %t, and trace says %s", reached, out)
		}
		return a.names(q, v)
	})
	if err != nil {
		t.Errorf("kubectl weft %s: %v; policies %s", strings.Join(q.args, " "), err, a.describe())
		return
	}
	a.verdicts[last]++
}

// mayBeUnknown fails for verdicts that have no reason.
func (a *accuracy) mayBeUnknown(v traceVerdict) error {
	for _, f := range v.Findings {
		if !strings.Contains(f.Why, "do not pass OVN") {
			return fmt.Errorf("the verdict is unknown: %s", f.Why)
		}
	}
	return nil
}

// names checks that the object that drops a packet is about one of its ends.
func (a *accuracy) names(q sending, v traceVerdict) error {
	for _, f := range v.Findings {
		switch f.By.Kind {
		case "NetworkPolicy":
			at := slices.IndexFunc(a.policies, func(p *networkingv1.NetworkPolicy) bool { return p.Name == f.By.Name })
			if at < 0 {
				return fmt.Errorf("trace names NetworkPolicy %s, which does not exist", f.By.Name)
			}
			label := a.policies[at].Spec.PodSelector.MatchLabels["app"]
			if label != "" && !slices.Contains(q.labels, label) {
				return fmt.Errorf("trace names NetworkPolicy %s of pods %s, and the ends are %v", f.By.Name, label, q.labels)
			}
		case "EgressFirewall":
			if a.firewall == nil {
				return fmt.Errorf("trace names an EgressFirewall, and there is none")
			}
		case "Service", "":
		default:
			return fmt.Errorf("trace names a %s", f.By.Kind)
		}
	}
	if v.Result == "dropped" && !slices.ContainsFunc(v.Findings, func(f struct {
		Why string
		By  struct{ Kind, Namespace, Name string }
	}) bool {
		return f.By.Kind != ""
	}) {
		return fmt.Errorf("no object is named: %+v", v)
	}
	return nil
}

func (a *accuracy) describe() string {
	text, err := json.Marshal(map[string]any{"policies": a.policies, "firewall": a.firewall})
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// TestWhyAPodWaits runs kubectl weft why for a pod that runs, a pod without a node, and a pod whose address is refused.
func TestWhyAPodWaits(t *testing.T) {
	w := newWeft(t)
	running := bed.peerPod("why-runs", "n1")
	bed.run(t, running)
	w.expect(0, "", []string{"why", namespace + "/" + running.Name}, "the pod has its network")
	unscheduled := bed.peerPod("why-unscheduled", "")
	unscheduled.Spec.NodeSelector = map[string]string{"no-such-label": "true"}
	bed.create(t, unscheduled)
	eventually(t, readyTimeout, func() error {
		out, errs, code := w.run("", "why", namespace+"/"+unscheduled.Name)
		if code != 1 || !strings.Contains(out, "waits for the scheduler (stage scheduling") {
			return fmt.Errorf("exit code %d: %s%s", code, out, errs)
		}
		return nil
	})
	full := bed.peerPod("why-address", "n1")
	full.Annotations = map[string]string{networkv1alpha1.RequestedIPsAnnotation: "192.0.2.77"}
	bed.create(t, full)
	eventually(t, readyTimeout, func() error {
		if out, errs, code := w.run("", "why", namespace+"/"+full.Name); code != 1 || !strings.Contains(out, "(stage address on node n1") {
			return fmt.Errorf("exit code %d: %s%s", code, out, errs)
		}
		return nil
	})
}
