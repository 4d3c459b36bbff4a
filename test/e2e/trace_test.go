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
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/poll"
)

// traced is the namespace of the pods that questions are about.
const traced = "e2e-traced"

// usualQuestions is the default number of questions. Policies change after questionsPerRound of them, and
// atATime questions run concurrently.
const (
	usualQuestions    = 40
	questionsPerRound = 24
	atATime           = 3
)

// accuracy is the fixture of TestTraceIsRight.
type accuracy struct {
	w        *weft
	random   *rand.Rand
	pods     []*corev1.Pod
	services []*corev1.Service
	objects  policies

	mu       sync.Mutex
	verdicts map[string]int // "dropped by NetworkPolicy" -> questions
	late     int            // questions whose first packet came before a change reached all nodes
}

// TestTraceIsRight runs kubectl weft trace with random questions, and sends packets for each, over both families. A
// question counts once for each family. Verdict and packets must agree, and a drop must name the policies that isolate
// one of the ends. Servers must see the addresses in the trace. WEFT_E2E_QUESTIONS is the number of
// questions, WEFT_E2E_SEED the seed.
func TestTraceIsRight(t *testing.T) {
	seed, questions := numberFrom(t, "WEFT_E2E_SEED", 1), numberFrom(t, "WEFT_E2E_QUESTIONS", usualQuestions)
	a := newAccuracy(t, uint64(seed))
	for asked := 0; asked < questions; {
		a.changePolicies(t)
		round := min(questionsPerRound, questions-asked)
		slots := make(chan struct{}, atATime)
		var running sync.WaitGroup
		for range (round + 1) / 2 {
			s := a.question(t)
			slots <- struct{}{}
			running.Go(func() {
				defer func() { <-slots }()
				a.check(t, s)
			})
		}
		running.Wait()
		asked += round
		t.Logf("%d questions: %v, %d of them late", asked, a.verdicts, a.late)
	}
	if questions >= usualQuestions && (a.verdicts["allowed"] == 0 || a.verdicts["dropped by NetworkPolicy"] == 0) {
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
	installClusterPolicies(t)
	bed.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: traced}})
	eventually(t, readyTimeout, func() error {
		return bed.api.Get(t.Context(), types.NamespacedName{Namespace: traced, Name: "default"}, &corev1.ServiceAccount{})
	})
	for _, label := range []string{"red", "green", "blue"} {
		for _, node := range []string{"n1", "n2"} {
			p := labelled(bed.peerPod(label+"-"+node, node), label)
			p.Namespace = traced
			p.Spec.Containers[0].ReadinessProbe = nil // a slow machine must not change the endpoints under a question
			a.pods = append(a.pods, p)
		}
	}
	for _, s := range []*corev1.Service{service("red", "red", published(0)), service("green", "green"),
		service("green-local", "green", published(1), local), service("nobody", "nobody"), service("unready", "unready")} {
		s.Namespace = traced
		a.services = append(a.services, s)
		bed.create(t, s)
	}
	unready := labelled(bed.peerPod("unready", "n1"), "unready")
	unready.Namespace = traced
	unready.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.org/never"}}
	bed.create(t, unready)
	bed.run(t, a.pods...)
	bed.serveOn(t, lab.Outside().Name)
	bed.assignable(t, "n2", true)
	t.Cleanup(bed.unassignable)
	return a
}

func nodePorts(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeNodePort }

// echoed is the protocol of questions about echo requests, which have no port.
const echoed = "icmp"

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// sending is a question with its packets, by family.
type sending struct {
	from     caller
	sender   *corev1.Pod // or nil
	receiver string      // label app of the receivers, or empty
	args     [][]string  // one command, or one for each family
	calls    []calls
}

// question returns a random question.
func (a *accuracy) question(t *testing.T) sending {
	s := sending{}
	onHost, outside := a.random.IntN(6) == 0, a.random.IntN(6) == 0
	var from []string
	switch sender := pick(a.random, a.pods...); {
	case outside:
		from, s.from = texts(both(lab.Outside())), bed.hostCaller(lab.Outside().Name)
	case onHost:
		from, s.from = []string{"node/" + sender.Spec.NodeName}, bed.hostCaller(sender.Spec.NodeName)
	default:
		from, s.from, s.sender = []string{traced + "/" + sender.Name}, bed.podCaller(sender), sender
	}
	to, protocol, port := a.destination(t, &s, onHost, outside)
	for i := range max(len(from), len(to)) {
		args := []string{"trace", from[min(i, len(from)-1)], to[min(i, len(to)-1)], "--protocol", protocol, "--all-backends", "-o", "json"}
		if protocol != echoed {
			args = append(args, "--port", port)
		}
		s.args = append(s.args, args)
	}
	return s
}

func texts(addresses []netip.Addr) (all []string) {
	for _, a := range addresses {
		all = append(all, a.String())
	}
	return all
}

func family2(addresses []netip.Addr, v6 bool) netip.Addr {
	return addresses[slices.IndexFunc(addresses, func(a netip.Addr) bool { return a.Is6() == v6 })]
}

// destination chooses a random destination. It returns the arguments of trace, the protocol and the port. From outside
// only node ports are reachable, and OVN does not carry what a host sends outside. Services have no ICMP.
func (a *accuracy) destination(t *testing.T, s *sending, onHost, outside bool) (to []string, protocol, port string) {
	kind := pick(a.random, "pod", "pod", "service", "service", "service", "external IP", "node port", "outside", "outside")
	if outside {
		kind = "node port"
	}
	protocol = pick(a.random, "tcp", "udp")
	if (kind == "pod" || kind == "outside") && a.random.IntN(3) == 0 {
		protocol = echoed
	}
	call := func(number uint16, addresses ...netip.Addr) string {
		for _, v6 := range []bool{false, true} {
			to := netip.AddrPortFrom(family2(addresses, v6), number)
			s.calls = append(s.calls, calls{Protocol: protocol, To: to.String(), Count: 3, Stop: true})
		}
		return strconv.Itoa(int(number))
	}
	switch {
	case kind == "node port":
		balanced := pick(a.random, a.services[0], a.services[2])
		node := pick(a.random, "n1", "n2")
		entry := entries(t, balanced)[nodePort(node)]
		s.receiver = balanced.Spec.Selector["app"]
		return []string{"node/" + node}, protocol, call(entry.port(protocol), entry.addresses...)
	case kind == "external IP":
		balanced := pick(a.random, a.services[0], a.services[2])
		s.receiver = balanced.Spec.Selector["app"]
		return balanced.Spec.ExternalIPs, protocol, call(80, addressList(balanced.Spec.ExternalIPs...)...)
	case kind == "outside" && !onHost:
		return texts(both(lab.Outside())), protocol, call(whoPort, both(lab.Outside())...)
	case kind == "service":
		balanced := pick(a.random, a.services...)
		s.receiver = balanced.Spec.Selector["app"]
		return []string{"svc/" + traced + "/" + balanced.Name}, protocol, call(80, addressList(balanced.Spec.ClusterIPs...)...)
	}
	p := pick(a.random, a.pods...)
	s.receiver = p.Labels["app"]
	return []string{traced + "/" + p.Name}, protocol, call(whoPort, addressesOf(p)...)
}

// traceFinding is the part of a finding of the command that the test judges.
type traceFinding struct {
	Family, Backend, Result, Why string
	By                           object
	Also                         []object
	Way                          []struct{ What string }
}

type object struct{ Kind, Namespace, Name string }

// check runs a question and sends its packets until both agree, because a change takes a moment to reach all nodes.
func (a *accuracy) check(t *testing.T, s sending) {
	t.Helper()
	attempts := 0
	var answers []string
	err := poll.Slowly(t.Context(), recoveryTimeout, func() (err error) {
		attempts++
		answers, err = a.compare(t, s)
		return err
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, answer := range answers {
		a.verdicts[answer]++
	}
	if attempts > 1 {
		a.late++
	}
	if err != nil {
		a.verdicts["disagrees"]++
		t.Errorf("kubectl weft %s: %v; policies %s", s.args, err, a.objects.describe())
	}
}

// compare runs the commands, sends the packets, and returns the verdict for each family.
func (a *accuracy) compare(t *testing.T, s sending) (answers []string, err error) {
	var findings []traceFinding
	for _, args := range s.args {
		out, errs, _ := a.w.run("", args...)
		var v struct {
			Result, Why string
			Findings    []traceFinding
		}
		if err := json.Unmarshal([]byte(out), &v); err != nil {
			return nil, fmt.Errorf("%w: %s%s", err, out, errs)
		}
		if len(v.Findings) == 0 && !mayBeUnknown(v.Why) {
			return nil, fmt.Errorf("no answer: %s", v.Why)
		}
		findings = append(findings, v.Findings...)
	}
	became, err := s.from.callAll(t.Context(), s.calls)
	if err != nil {
		return nil, err
	}
	for i, family := range []string{"IPv4", "IPv6"} {
		of := slices.DeleteFunc(slices.Clone(findings), func(f traceFinding) bool { return f.Family != family })
		if err := a.agree(s, of, became[i]); err != nil {
			return nil, fmt.Errorf("%s: %w: packets %+v, trace %+v", family, err, became[i], of)
		}
		answers = append(answers, answerOf(of))
	}
	return answers, nil
}

// answerOf sums findings up for the statistics.
func answerOf(findings []traceFinding) string {
	answer := ""
	for _, f := range findings {
		text := f.Result
		if f.By.Kind != "" && f.Result != "allowed" {
			text += " by " + f.By.Kind
		}
		if answer != "" && answer != text {
			return "different by backend"
		}
		answer = text
	}
	return answer
}

func mayBeUnknown(why string) bool {
	return strings.Contains(why, "do not pass OVN") || strings.Contains(why, "neither end is in the cluster")
}

// agree compares the findings of a family, one for each backend, with the packets.
func (a *accuracy) agree(s sending, findings []traceFinding, packets []called) error {
	allowed := map[string]traceFinding{} // by backend
	refused := 0
	for _, f := range findings {
		if err := a.names(s, f); err != nil {
			return err
		}
		switch f.Result {
		case "unknown":
			if !mayBeUnknown(f.Why) {
				return fmt.Errorf("the verdict is unknown: %s", f.Why)
			}
			return nil
		case "allowed":
			allowed[a.server(f.Backend)] = f
		case "rejected":
			refused++
		}
	}
	for _, packet := range packets {
		f, ok := allowed[packet.Server]
		if f2, all := allowed[""]; all { // no load balancer
			f, ok = f2, true
		}
		switch {
		case packet.Error == "" && !ok:
			return fmt.Errorf("%s answered", packet.Server)
		case packet.Error == "":
			if err := seenAs(s, f, packet); err != nil {
				return err
			}
		case len(allowed) == len(findings):
			return fmt.Errorf("a packet did not arrive")
		case packet.Refused && refused == 0, !packet.Refused && refused == len(findings):
			return fmt.Errorf("%d of %d are rejected", refused, len(findings))
		}
	}
	return nil
}

// server returns the name that the pod with a backend's address answers with.
func (a *accuracy) server(backend string) string {
	at, err := netip.ParseAddrPort(backend)
	if err != nil {
		return ""
	}
	for _, p := range a.pods {
		if slices.Contains(addressesOf(p), at.Addr()) {
			return p.Name
		}
	}
	return backend
}

// seenAs checks that the server saw the address that the trace says.
func seenAs(s sending, f traceFinding, packet called) error {
	if packet.Client == "" {
		return nil // an echo
	}
	client, err := netip.ParseAddrPort(packet.Client)
	if err != nil || s.sender == nil || s.sender.Name == packet.Server {
		return err // a host chooses its address itself, and a pod that reaches itself is turned round
	}
	want := addressesOf(s.sender)
	for _, h := range f.Way {
		if _, after, ok := strings.Cut(h.What, "source becomes "); ok {
			address, err := netip.ParseAddr(strings.Fields(after)[0])
			if err != nil {
				return err
			}
			want = []netip.Addr{address}
		}
	}
	if !slices.Contains(want, client.Addr().Unmap()) {
		return fmt.Errorf("the server saw %s, and trace says %s", client.Addr(), want)
	}
	return nil
}

// names checks that the test made the objects that drop a packet for one of the packet's ends.
func (a *accuracy) names(s sending, f traceFinding) error {
	sender := ""
	if s.sender != nil {
		sender = s.sender.Labels["app"]
	}
	switch {
	case f.Result == "allowed" || f.Result == "unknown":
	case f.By.Kind == "NetworkPolicy":
		label, direction := s.receiver, networkingv1.PolicyTypeIngress
		if strings.Contains(f.Why, "for egress") {
			label, direction = sender, networkingv1.PolicyTypeEgress
		}
		var named []string
		for _, o := range append([]object{f.By}, f.Also...) {
			named = append(named, o.Name)
		}
		slices.Sort(named)
		if isolating := a.objects.isolating(label, direction); !slices.Equal(named, isolating) {
			return fmt.Errorf("trace names the policies %v, and %v isolate %q", named, isolating, label)
		}
	case f.By.Kind == "ClusterNetworkPolicy":
		if subject := a.objects.subject(f.By.Name); subject != sender && subject != s.receiver {
			return fmt.Errorf("trace names ClusterNetworkPolicy %s about pods %q", f.By.Name, subject)
		}
	case f.By.Kind == "EgressFirewall":
		if a.objects.firewall == nil {
			return fmt.Errorf("trace names an EgressFirewall, and none exists")
		}
	case f.By.Kind != "Service":
		return fmt.Errorf("trace names %+v", f.By)
	}
	return nil
}
