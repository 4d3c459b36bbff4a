//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/test/lab"
	"github.com/weft-network/weft/test/poll"
)

// fenced is the namespace with a firewall. Other namespaces are not affected.
const fenced = "e2e-fenced"

// fence is the fixture of the egress firewall tests.
type fence struct {
	pods     []*corev1.Pod // in the namespace with a firewall, one on each node
	free     *corev1.Pod   // in a namespace without a firewall
	inside   *corev1.Pod
	firewall *networkv1alpha1.EgressFirewall
}

// TestEgressFirewall sends packets from a namespace whose firewall changes: by network, port, node and name, over
// both families.
func TestEgressFirewall(t *testing.T) {
	before := rowsOfRules(t)
	f := makeFence(t)
	out, far := both(lab.Outside()), both(lab.Far())
	everywhere := slices.Concat(out, far, addressesOf(f.inside))

	f.rules(t)
	f.reach(t, f.pods, everywhere...)

	t.Run("by network and port", func(t *testing.T) {
		f.rules(t, allow(cidr(out[0])), allow(cidr(out[1])), deny(anywhere4), deny(anywhere6))
		f.reach(t, f.pods, slices.Concat(out, addressesOf(f.inside))...)
		f.reach(t, []*corev1.Pod{f.free}, everywhere...)
		f.rules(t, deny(cidr(out[0]), tcp(whoPort-1, whoPort)), deny(cidr(out[1]), tcp(whoPort, 0)))
		f.reachOver(t, "udp", f.pods, everywhere...)
		f.reachOver(t, "tcp", f.pods, slices.Concat(far, addressesOf(f.inside))...)
	})
	t.Run("by node", func(t *testing.T) {
		nodes, err := bed.Nodes()
		must(t, err)
		name := networkv1alpha1.EgressFirewallDestination{NodeSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{corev1.LabelHostname: "n2"}}}
		f.rules(t, allow(name), deny(anywhere4), deny(anywhere6))
		f.reachOf(t, []string{"tcp"}, f.pods, slices.Concat(both(nodes[0]), both(nodes[1])), both(nodes[1])...)
	})
	t.Run("by name", func(t *testing.T) { testNames(t, f, out, far) })
	t.Run("by a wildcard", func(t *testing.T) { testWildcard(t, f, out, far) })
	t.Run("a connection ends when it is denied", func(t *testing.T) { testCut(t, f, out) })
	t.Run("replies to callers outside", func(t *testing.T) { testAnswers(t, f) })
	t.Run("the first packet of a new pod", func(t *testing.T) { testFirstPacket(t, f, out) })
	t.Run("an unreadable rule denies everything", func(t *testing.T) {
		f.rules(t, allow(networkv1alpha1.EgressFirewallDestination{NodeSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "zone", Operator: "Near"}}}}))
		f.says(t, networkv1alpha1.ConditionReady, metav1.ConditionFalse, networkv1alpha1.ReasonInvalidSpec,
			"spec.egress[0].to.nodeSelector", "Near")
		f.reach(t, f.pods, addressesOf(f.inside)...)
	})

	bed.remove(t, f.firewall)
	f.reach(t, f.pods, everywhere...)
	bed.awaitConsistent(t)
	if left := rowsOfRules(t); !slices.Equal(left, before) {
		t.Errorf("rule rows are %v, were %v before the test", left, before)
	}
}

// rowsOfRules returns Weft's rows that make up rules. Some always exist, for egress IPs.
func rowsOfRules(t *testing.T) (rows []string) {
	t.Helper()
	for _, table := range []string{"ACL", "Port_Group", "Address_Set", "Meter", "Meter_Band"} {
		rows = append(rows, strings.Fields(bed.mustExec(t, bed.central, "ovn-nbctl", "--bare", "--columns=_uuid",
			"find", table, `external_ids:"weft.dev/unit"!=""`))...)
	}
	slices.Sort(rows)
	return rows
}

func makeFence(t *testing.T) *fence {
	t.Helper()
	bed.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fenced}})
	eventually(t, readyTimeout, func() error {
		return bed.api.Get(t.Context(), types.NamespacedName{Namespace: fenced, Name: "default"}, &corev1.ServiceAccount{})
	})
	f := &fence{free: bed.peerPod("fence-free", "n1"), inside: bed.peerPod("fence-inside", "n2")}
	for _, node := range []string{"n1", "n2"} {
		p := labelled(bed.peerPod("fenced-"+node, node), "fenced")
		p.Namespace = fenced
		f.pods = append(f.pods, p)
	}
	f.firewall = &networkv1alpha1.EgressFirewall{ObjectMeta: metav1.ObjectMeta{Namespace: fenced,
		Name: networkv1alpha1.EgressFirewallName},
		Spec: networkv1alpha1.EgressFirewallSpec{Egress: []networkv1alpha1.EgressFirewallRule{}}}
	bed.run(t, append([]*corev1.Pod{f.free, f.inside}, f.pods...)...)
	bed.create(t, f.firewall)
	bed.serveOn(t, lab.Outside().Name, lab.Far().Name, "n1", "n2")
	return f
}

var (
	anywhere4 = networkv1alpha1.EgressFirewallDestination{CIDRSelector: "0.0.0.0/0"}
	anywhere6 = networkv1alpha1.EgressFirewallDestination{CIDRSelector: "::/0"}
)

func both(m lab.Machine) []netip.Addr { return []netip.Addr{m.IPv4.Addr(), m.IPv6.Addr()} }

func cidr(a netip.Addr) networkv1alpha1.EgressFirewallDestination {
	return networkv1alpha1.EgressFirewallDestination{CIDRSelector: netip.PrefixFrom(a, a.BitLen()).String()}
}

func named53(name string) networkv1alpha1.EgressFirewallDestination {
	return networkv1alpha1.EgressFirewallDestination{DNSName: name}
}

func tcp(first, last int32) networkv1alpha1.EgressFirewallPort {
	return networkv1alpha1.EgressFirewallPort{Protocol: corev1.ProtocolTCP, Port: first, EndPort: last}
}

func allow(to networkv1alpha1.EgressFirewallDestination, ports ...networkv1alpha1.EgressFirewallPort) networkv1alpha1.EgressFirewallRule {
	return networkv1alpha1.EgressFirewallRule{Type: networkv1alpha1.EgressFirewallAllow, To: to, Ports: ports}
}

func deny(to networkv1alpha1.EgressFirewallDestination, ports ...networkv1alpha1.EgressFirewallPort) networkv1alpha1.EgressFirewallRule {
	return networkv1alpha1.EgressFirewallRule{Type: networkv1alpha1.EgressFirewallDeny, To: to, Ports: ports}
}

// rules replaces the rules and waits until the operator reports a condition for them.
func (f *fence) rules(t *testing.T, rules ...networkv1alpha1.EgressFirewallRule) {
	t.Helper()
	if rules == nil {
		rules = []networkv1alpha1.EgressFirewallRule{}
	}
	patch := map[string]any{"spec": map[string]any{"egress": rules}}
	text, err := json.Marshal(patch)
	must(t, err)
	must(t, bed.api.Patch(t.Context(), f.firewall, client.RawPatch(types.MergePatchType, text)))
	eventually(t, readyTimeout, func() error {
		if err := bed.api.Get(t.Context(), client.ObjectKeyFromObject(f.firewall), f.firewall); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(f.firewall.Status.Conditions, networkv1alpha1.ConditionReady); c == nil ||
			c.ObservedGeneration != f.firewall.Generation {
			return fmt.Errorf("generation %d has conditions %+v", f.firewall.Generation, f.firewall.Status.Conditions)
		}
		return nil
	})
}

// says waits for a condition whose message contains all words.
func (f *fence) says(t *testing.T, kind string, status metav1.ConditionStatus, reason string, words ...string) {
	t.Helper()
	eventually(t, readyTimeout, func() error {
		if err := bed.api.Get(t.Context(), client.ObjectKeyFromObject(f.firewall), f.firewall); err != nil {
			return err
		}
		c := meta.FindStatusCondition(f.firewall.Status.Conditions, kind)
		if c == nil || c.Status != status || c.Reason != reason || slices.ContainsFunc(words, func(w string) bool {
			return !strings.Contains(c.Message, w)
		}) {
			return fmt.Errorf("conditions are %+v, want %s %s %s with %q", f.firewall.Status.Conditions, kind, status, reason, words)
		}
		return nil
	})
}

// reach waits until the pods reach exactly these addresses, over TCP and UDP.
func (f *fence) reach(t *testing.T, from []*corev1.Pod, want ...netip.Addr) {
	t.Helper()
	f.reachOf(t, []string{"tcp", "udp"}, from, f.everywhere(), want...)
}

func (f *fence) reachOver(t *testing.T, protocol string, from []*corev1.Pod, want ...netip.Addr) {
	t.Helper()
	f.reachOf(t, []string{protocol}, from, f.everywhere(), want...)
}

func (f *fence) everywhere() []netip.Addr {
	return slices.Concat(both(lab.Outside()), both(lab.Far()), addressesOf(f.inside))
}

// reachOf waits until each pod reaches exactly the wanted addresses out of all.
func (f *fence) reachOf(t *testing.T, protocols []string, from []*corev1.Pod, all []netip.Addr, want ...netip.Addr) {
	t.Helper()
	var wanted []calls
	for _, protocol := range protocols {
		for _, a := range all {
			wanted = append(wanted, calls{protocol, netip.AddrPortFrom(a, whoPort).String(), 1, false})
		}
	}
	var group errgroup.Group
	for _, p := range from {
		group.Go(func() error {
			return poll.Slowly(t.Context(), recoveryTimeout, func() error { return reaches(t.Context(), p, wanted, want) })
		})
	}
	must(t, group.Wait())
}

// reaches makes a pod's calls. The error names each call with an unexpected outcome.
func reaches(ctx context.Context, p *corev1.Pod, wanted []calls, want []netip.Addr) error {
	became, err := bed.podCaller(p).callAll(ctx, wanted)
	if err != nil {
		return err
	}
	var wrong []error
	for i, c := range wanted {
		reached := slices.Contains(want, netip.MustParseAddrPort(c.To).Addr())
		for _, one := range became[i] {
			if (one.Error == "") != reached {
				wrong = append(wrong, fmt.Errorf("pod %s calls %s %s: answered by %q, %s; want it reached: %t",
					p.Name, c.Protocol, c.To, one.Server, one.Error, reached))
			}
		}
	}
	return errors.Join(wrong...)
}

// testNames serves a name on the host outside, changes its address, removes it, and stops answering.
func testNames(t *testing.T, f *fence, out, far []netip.Addr) {
	const name = "api.fence.test"
	inside := addressesOf(f.inside)
	useOutsideNameServer(t)
	answering := serveNames(t, name, out...)
	f.rules(t, allow(named53("API.fence.test.")), allow(named53("none.fence.test")), deny(anywhere4), deny(anywhere6))
	f.reach(t, f.pods, slices.Concat(out, inside)...)
	f.says(t, networkv1alpha1.ConditionResolved, metav1.ConditionFalse, networkv1alpha1.ReasonUnresolvedNames,
		"spec.egress[1].to.dnsName: none.fence.test")

	answering()
	answering = serveNames(t, name, far...) // an address that is no longer in the answer is removed after a delay
	f.reach(t, f.pods, slices.Concat(far, inside)...)
	answering()
	f.says(t, networkv1alpha1.ConditionResolved, metav1.ConditionFalse, networkv1alpha1.ReasonUnresolvedNames,
		"spec.egress[0].to.dnsName: API.fence.test.", "no answer from the name servers")
	f.reach(t, f.pods, slices.Concat(far, inside)...) // addresses resolved before stay allowed
	replacePod(t, operator, "")
	f.says(t, networkv1alpha1.ConditionResolved, metav1.ConditionFalse, networkv1alpha1.ReasonUnresolvedNames,
		"spec.egress[0].to.dnsName: API.fence.test.")
	f.reach(t, f.pods, slices.Concat(far, inside)...) // a new operator keeps them too
	defer serveNames(t, name, far...)()
	f.rules(t, allow(named53(name)), deny(anywhere4), deny(anywhere6))
	f.says(t, networkv1alpha1.ConditionResolved, metav1.ConditionTrue, networkv1alpha1.ReasonAsExpected)
	f.rules(t)
	testNameOfPolicy(t, f, name, far)
}

// testNameOfPolicy lets the pods reach only a name by a cluster-wide policy, which the name server resolves to addresses.
func testNameOfPolicy(t *testing.T, f *fence, name string, addresses []netip.Addr) {
	installClusterPolicies(t)
	p := &policyv1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "fence"}}
	p.Spec.Tier = policyv1alpha2.AdminTier
	p.Spec.Subject.Namespaces = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: fenced}}
	p.Spec.Egress = []policyv1alpha2.ClusterNetworkPolicyEgressRule{
		{Action: policyv1alpha2.ClusterNetworkPolicyRuleActionAccept,
			To: []policyv1alpha2.ClusterNetworkPolicyEgressPeer{{DomainNames: []policyv1alpha2.DomainName{policyv1alpha2.DomainName(name)}}}},
		{Action: policyv1alpha2.ClusterNetworkPolicyRuleActionDeny,
			To: []policyv1alpha2.ClusterNetworkPolicyEgressPeer{{Networks: []policyv1alpha2.CIDR{"0.0.0.0/0", "::/0"}}}}}
	bed.create(t, p)
	f.reach(t, f.pods, addresses...)
	bed.remove(t, p)
	f.reach(t, f.pods, f.everywhere()...)
}

// useOutsideNameServer makes the operators of all zones resolve names at the host outside until the test's end.
func useOutsideNameServer(t *testing.T) {
	t.Helper()
	zones, err := bed.zones(t.Context())
	must(t, err)
	operators := []string{"weft-operator"}
	for _, z := range zones {
		operators = append(operators, "weft-operator-"+string(z.Name))
	}
	change := func(ctx context.Context, patch string) (failed error) {
		for _, name := range operators {
			failed = errors.Join(failed, patchOperator(ctx, name, patch))
		}
		return failed
	}
	must(t, change(t.Context(), fmt.Sprintf(
		`{"spec":{"template":{"spec":{"dnsPolicy":"None","dnsConfig":{"nameservers":[%q]}}}}}`, lab.Outside().IPv4.Addr())))
	t.Cleanup(func() {
		if err := change(cleanup(), `{"spec":{"template":{"spec":{"dnsPolicy":"Default","dnsConfig":null}}}}`); err != nil {
			t.Error(err)
		}
	})
}

// patchOperator patches an operator's Deployment, and waits for its new pod.
func patchOperator(ctx context.Context, name, patch string) error {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: product, Name: name}}
	if err := bed.api.Patch(ctx, d, client.RawPatch(types.StrategicMergePatchType, []byte(patch))); err != nil {
		return err
	}
	return poll.Slowly(ctx, readyTimeout, func() error {
		if err := bed.api.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		if s := d.Status; s.ObservedGeneration != d.Generation || s.UpdatedReplicas != 1 || s.ReadyReplicas != 1 || s.Replicas != 1 {
			return fmt.Errorf("generation %d of the operator's deployment has status %+v", d.Generation, s)
		}
		return nil
	})
}

// serveNames runs a name server on the host outside that serves one name.
func serveNames(t *testing.T, name string, addresses ...netip.Addr) (stop func()) {
	t.Helper()
	argv := []string{filepath.Join(bed.peerDir, "peer"), "names"}
	for _, a := range addresses {
		argv = append(argv, "--record="+name+"="+a.String())
	}
	cmd, err := bed.Command(t.Context(), lab.Outside().Name, argv...)
	must(t, err)
	end, err := cmd.StdinPipe()
	must(t, err)
	said, err := cmd.StdoutPipe()
	must(t, err)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	must(t, cmd.Start())
	if line, err := bufio.NewReader(said).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the name server printed %q, %v: %s", line, err, complaint.String())
	}
	return func() {
		if err := errors.Join(end.Close(), cmd.Wait()); err != nil && t.Context().Err() == nil {
			t.Errorf("name server: %v: %s", err, complaint.String())
		}
	}
}

// testCut denies the destination of an open connection.
func testCut(t *testing.T, f *fence, out []netip.Addr) {
	f.rules(t)
	p := bed.peerPod("fenced-flow", "n1", "--flow="+netip.AddrPortFrom(out[0], 7000).String())
	p.Namespace = fenced
	bed.run(t, p)
	flowing := func(want bool) func() error {
		return func() error {
			before, err := getJSON[flowState](t.Context(), bed, p, "/flow")
			if err != nil {
				return err
			}
			for range 10 { // twice the interval between two counters
				after, err := getJSON[flowState](t.Context(), bed, p, "/flow")
				if err != nil {
					return err
				}
				if after.Echoes != before.Echoes {
					if want {
						return nil
					}
					return fmt.Errorf("the connection still passes data: %d echoes, then %d", before.Echoes, after.Echoes)
				}
			}
			if want {
				return fmt.Errorf("the connection is still open without data: %+v", before)
			}
			return nil
		}
	}
	eventually(t, recoveryTimeout, flowing(true))
	f.rules(t, deny(cidr(out[0])))
	eventually(t, recoveryTimeout, flowing(false))
}

// testAnswers calls a denied pod from outside. The calls are answered although the pod may open no connections,
// and the pod sees the caller's own address.
func testAnswers(t *testing.T, f *fence) {
	f.rules(t, deny(anywhere4), deny(anywhere6))
	s := service("fenced", "fenced", func(s *corev1.ServiceSpec) {
		s.Type, s.ExternalTrafficPolicy = corev1.ServiceTypeNodePort, corev1.ServiceExternalTrafficPolicyLocal
	})
	s.Namespace = fenced
	bed.create(t, s)
	f.reach(t, f.pods, addressesOf(f.inside)...)
	nodes, err := bed.Nodes()
	must(t, err)
	var wanted []calls
	for _, p := range s.Spec.Ports {
		for _, a := range both(nodes[0]) {
			wanted = append(wanted, calls{strings.ToLower(string(p.Protocol)),
				netip.AddrPortFrom(a, uint16(p.NodePort)).String(), 3, false})
		}
	}
	eventually(t, recoveryTimeout, func() error {
		became, err := bed.hostCaller(lab.Outside().Name).callAll(t.Context(), wanted)
		if err != nil {
			return err
		}
		for i, all := range became {
			for _, one := range all {
				seen, err := netip.ParseAddrPort(one.Client)
				if one.Error != "" || err != nil || !slices.Contains(both(lab.Outside()), seen.Addr().Unmap()) {
					return fmt.Errorf("%s: %+v", wanted[i].To, one)
				}
			}
		}
		return nil
	})
}

// testFirstPacket starts pods that only make calls: every call of the denied pod fails, and every call of the other
// succeeds from the first on.
func testFirstPacket(t *testing.T, f *fence, out []netip.Addr) {
	f.rules(t, deny(anywhere4), deny(anywhere6))
	var pods []*corev1.Pod
	for _, denied := range []bool{false, true} {
		for _, to := range out {
			for _, protocol := range []string{"tcp", "udp"} {
				p := bed.peerPod(fmt.Sprintf("fence-first-%s-%d", protocol, to.BitLen()), "n2")
				if denied {
					p.Namespace = fenced
				}
				p.Spec.RestartPolicy, p.Spec.Containers[0].ReadinessProbe = corev1.RestartPolicyNever, nil
				p.Spec.Containers[0].Command = []string{peerPath, "call", "--protocol=" + protocol,
					"--to=" + netip.AddrPortFrom(to, whoPort).String(), "--count=3"}
				bed.create(t, p)
				pods = append(pods, p)
			}
		}
	}
	for _, p := range pods {
		denied := p.Namespace == fenced
		if all := lastWords(t, p); slices.ContainsFunc(all, func(c called) bool { return (c.Error == "") == denied }) {
			t.Errorf("pod %s/%s, denied: %t: %+v", p.Namespace, p.Name, denied, all)
		}
	}
}

// lastWords waits until a pod ends and reads what it printed.
func lastWords(t *testing.T, p *corev1.Pod) (all []called) {
	t.Helper()
	eventually(t, readyTimeout, func() error {
		if err := bed.api.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		if p.Status.Phase != corev1.PodSucceeded {
			return fmt.Errorf("pod %s/%s is %s", p.Namespace, p.Name, p.Status.Phase)
		}
		return nil
	})
	out, err := bed.Kubectl(t.Context(), "-n", p.Namespace, "logs", p.Name)
	must(t, err)
	must(t, json.Unmarshal(out, &all))
	if len(all) == 0 {
		t.Errorf("pod %s/%s printed no call", p.Namespace, p.Name)
	}
	return all
}
