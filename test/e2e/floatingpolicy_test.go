//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

const (
	policyPool = "policies"
	// changeTimeout bounds a step of the table: 21 pods on two nodes, of which a StatefulSet replaces one at a time.
	changeTimeout = 4 * time.Minute
)

// Values of an expectation that depend on earlier steps.
const (
	some      = -1 // the number does not matter
	near      = -2 // the pods that were on the node that stays
	elsewhere = -3 // the others
)

// expectation is the state of a workload after a step.
type expectation struct {
	ready int // pods that are Ready with an address of each family
	again int // of these, pods with an address as before: a StatefulSet's pod its own, a Deployment's pod one of the workload's
	kept  int // addresses of each family that are kept without a pod
}

// floatingStep changes all workloads. The state afterwards is by release policy: of the StatefulSet, of the Deployment.
type floatingStep struct {
	name string
	do   func(*floatingWorkload, *testing.T)
	want map[networkv1alpha1.ReleasePolicy][2]expectation
}

// floatingTable is who has which address after each step.
func floatingTable() []floatingStep {
	const pod, immutable, never = networkv1alpha1.ReleaseWithPod, networkv1alpha1.ReleaseImmutable, networkv1alpha1.ReleaseNever
	type states = map[networkv1alpha1.ReleasePolicy][2]expectation
	same := states{pod: {{3, 3, 0}, {4, 4, 0}}, immutable: {{3, 3, 0}, {4, 4, 0}}, never: {{3, 3, 0}, {4, 4, 0}}}
	replaced := states{pod: {{3, some, 0}, {4, some, 0}}, immutable: {{3, 3, 0}, {4, 4, 0}}, never: {{3, 3, 0}, {4, 4, 0}}}
	// A node carries the addresses of its rack alone. A workload gets others only if it keeps none.
	oneRack := states{pod: {{3, some, 0}, {4, some, 0}}, immutable: {{near, near, elsewhere}, {near, near, elsewhere}},
		never: {{near, near, elsewhere}, {near, near, elsewhere}}}
	back := states{pod: same[pod], immutable: {{3, 3, 0}, {4, 4, 0}}, never: {{3, 3, 0}, {4, 4, 0}}}
	return []floatingStep{
		{"create", (*floatingWorkload).create, states{
			pod: {{3, some, 0}, {4, some, 0}}, immutable: {{3, some, 0}, {4, some, 0}}, never: {{3, some, 0}, {4, some, 0}}}},
		{"scale down", (*floatingWorkload).scaleDown, states{
			pod: {{1, 1, 0}, {2, 2, 0}}, immutable: {{1, 1, 0}, {2, 2, 0}}, never: {{1, 1, 2}, {2, 2, 2}}}},
		{"scale up", (*floatingWorkload).scaleUp, states{
			pod: {{3, some, 0}, {4, some, 0}}, immutable: {{3, some, 0}, {4, some, 0}}, never: {{3, 3, 0}, {4, 4, 0}}}},
		{"kill kubelet and agent", killNode, same},
		{"roll", (*floatingWorkload).roll, replaced},
		{"delete pods", (*floatingWorkload).deletePods, replaced},
		{"drain", drain, oneRack},
		{"uncordon", uncordon, back},
		{"node dies", nodeDies, oneRack},
		{"node returns", nodeReturns, back},
		{"delete", (*floatingWorkload).delete, states{
			pod: {{0, 0, 0}, {0, 0, 0}}, immutable: {{0, 0, 0}, {0, 0, 0}}, never: {{0, 0, 3}, {0, 0, 4}}}},
		{"create again", (*floatingWorkload).create, states{
			pod: {{3, some, 0}, {4, some, 0}}, immutable: {{3, some, 0}, {4, some, 0}}, never: {{3, 3, 0}, {4, 4, 0}}}},
	}
}

// floatingWorkload is a StatefulSet of 3 or a Deployment of 4 with a release policy.
type floatingWorkload struct {
	kind, name string
	policy     networkv1alpha1.ReleasePolicy
	gate       bool // its pods have the scheduling gate; without it, their scheduler has the extender
	replicas   int
	object     client.Object

	state  holding
	lastOf map[string][]netip.Addr // pod -> its last addresses
	nearby int                     // pods on the node that stays, after the last step
}

// holding is who has which address of a workload.
type holding struct {
	Pods map[string][]netip.Addr `json:"pods"`
	Kept []netip.Addr            `json:"kept"`
}

// floatingWorkloads returns a StatefulSet and a Deployment for each policy. Those with policy Never have the gate.
func floatingWorkloads() (all []*floatingWorkload) {
	for _, policy := range []networkv1alpha1.ReleasePolicy{
		networkv1alpha1.ReleaseWithPod, networkv1alpha1.ReleaseImmutable, networkv1alpha1.ReleaseNever} {
		for kind, replicas := range map[string]int{"StatefulSet": 3, "Deployment": 4} {
			all = append(all, &floatingWorkload{kind: kind, name: strings.ToLower(string(policy) + "-" + kind), policy: policy,
				gate: policy == networkv1alpha1.ReleaseNever, replicas: replicas, lastOf: map[string][]netip.Addr{}})
		}
	}
	return all
}

func (w *floatingWorkload) String() string { return strings.ToLower(w.kind) + "/" + w.name }

func (w *floatingWorkload) create(t *testing.T) {
	d := bed.peerDeployment(w.name, int32(w.replicas))
	requestAddress(&d.Spec.Template, policyPool, w.policy, w.gate)
	d.Spec.Template.Spec.Containers[0].ReadinessProbe = nil // a busy machine answers late
	w.object = d
	if w.kind == "StatefulSet" {
		s := &appsv1.StatefulSet{ObjectMeta: d.ObjectMeta}
		s.Spec.Replicas, s.Spec.Selector, s.Spec.Template = d.Spec.Replicas, d.Spec.Selector, d.Spec.Template
		w.object = s
	}
	must(t, bed.api.Create(t.Context(), w.object))
}

func (w *floatingWorkload) scaleTo(t *testing.T, replicas int) {
	bed.mustKubectl(t, "-n", namespace, "scale", w.String(), fmt.Sprint("--replicas=", replicas))
}

func (w *floatingWorkload) scaleDown(t *testing.T) { w.scaleTo(t, w.replicas-2) }
func (w *floatingWorkload) scaleUp(t *testing.T)   { w.scaleTo(t, w.replicas) }

func (w *floatingWorkload) roll(t *testing.T) {
	bed.mustKubectl(t, "-n", namespace, "rollout", "restart", w.String())
	bed.mustKubectl(t, "-n", namespace, "rollout", "status", "--timeout="+changeTimeout.String(), w.String())
}

func (w *floatingWorkload) deletePods(t *testing.T) {
	bed.mustKubectl(t, "-n", namespace, "delete", "pods", "-l", "app="+w.name, "--wait=true")
}

func (w *floatingWorkload) delete(t *testing.T) { bed.remove(t, w.object) }

// killNode kills kubelet and the agent of n1, once for all workloads.
func killNode(w *floatingWorkload, t *testing.T) {
	if w.kind == "StatefulSet" && w.policy == networkv1alpha1.ReleaseWithPod {
		signalProgram(t, staying(), syscall.SIGKILL, "weft-agent", "")
		must(t, bed.Kill(staying(), "kubelet"))
	}
}

func drain(w *floatingWorkload, t *testing.T) {
	bed.mustKubectl(t, "drain", other(staying()), "--pod-selector=app="+w.name, "--ignore-daemonsets", "--force", "--timeout=120s")
}

func uncordon(_ *floatingWorkload, t *testing.T) { bed.mustKubectl(t, "uncordon", other(staying())) }

// outOfService is the taint by which a person says that a node is down. Kubernetes then forgets its pods.
const outOfService = "node.kubernetes.io/out-of-service"

// bootNetwork ends what Weft made of a node's link, as the end of the machine does, and configures the link as the
// next boot does. Devices of Open vSwitch's userspace datapath are persistent, so they survive its processes.
const bootNetwork = `
[ -e /sys/class/net/breth0 ] || exit 0
addresses=$(ip -o addr show dev breth0 | awk '/scope global/ {print $4}')
routes4=$(ip -4 route show default | awk '{print $3}')
routes6=$(ip -6 route show default | awk '{print $3}')
for l in /sys/class/net/*; do
	if [ -e $l/tun_flags ]; then ip link delete ${l##*/}; fi
done
rm -rf /run/openvswitch/* /run/ovn/* /run/weft/*
nft flush ruleset
echo 0 > /proc/sys/net/ipv6/conf/eth0/disable_ipv6
for a in $addresses; do ip addr add $a dev eth0; done
ip link set eth0 up
for r in $routes4; do ip -4 route replace default via $r dev eth0; done
for r in $routes6; do ip -6 route replace default via $r dev eth0; done`

// nodeDies kills everything on a node at once and declares it out of service, once for all workloads.
func nodeDies(w *floatingWorkload, t *testing.T) {
	if w.kind != "StatefulSet" || w.policy != networkv1alpha1.ReleaseWithPod {
		return
	}
	node := other(staying())
	daemons, err := bed.Daemons(node)
	must(t, err)
	for _, d := range slices.Backward(daemons) {
		must(t, bed.Stop(node, d.Name, syscall.SIGKILL))
	}
	bed.mustExec(t, node, "sh", "-c", endContainers)
	bed.mustExec(t, node, "sh", "-c", bootNetwork)
	eventually(t, changeTimeout, func() error {
		if nodeReady(t, node) == nil {
			return fmt.Errorf("node %s is Ready", node)
		}
		return nil
	})
	bed.mustKubectl(t, "taint", "node", node, outOfService+"=nodeshutdown:NoExecute", "--overwrite")
}

func nodeReturns(w *floatingWorkload, t *testing.T) {
	if w.kind == "StatefulSet" && w.policy == networkv1alpha1.ReleaseWithPod {
		startNode(t)
		eventually(t, changeTimeout, func() error { return nodeReady(t, other(staying())) })
	}
}

// startNode starts what nodeDies ended, also in a cleanup.
func startNode(t *testing.T) {
	node := other(staying())
	daemons, err := bed.Daemons(node)
	must(t, err)
	for _, d := range daemons {
		must(t, bed.Start(node, d.Name))
	}
	if _, err = bed.Kubectl(cleanup(), "taint", "node", node, outOfService+"-"); err != nil && !strings.Contains(err.Error(), "not found") {
		t.Error(err)
	}
}

// staying is the node that no step takes away, which has OVN's databases if they are on a node.
func staying() string {
	if bed.central == "n2" {
		return "n2"
	}
	return "n1"
}

// testFloatingPolicies takes all workloads through the table.
func testFloatingPolicies(t *testing.T, results *floatingResults) {
	ipPool(t, policyPool, networkv1alpha1.LocationOverlay, "",
		"rack=1 10.244.201.10-10.244.201.41", "rack=2 10.244.201.50-10.244.201.81",
		"rack=1 fd00:10:244:201::10-fd00:10:244:201::41", "rack=2 fd00:10:244:201::50-fd00:10:244:201::81")
	startExtender(t)
	t.Cleanup(func() {
		_, _ = bed.Kubectl(cleanup(), "uncordon", other(staying()))
		startNode(t)
	})
	all := floatingWorkloads()
	t.Cleanup(func() {
		for _, w := range all {
			if w.object != nil {
				bed.remove(t, w.object)
			}
		}
	})
	for _, step := range floatingTable() {
		took := map[string]holding{}
		began := time.Now()
		for _, w := range all {
			step.do(w, t)
		}
		for _, w := range all {
			want := step.want[w.policy][map[string]int{"StatefulSet": 0, "Deployment": 1}[w.kind]].of(w)
			eventually(t, changeTimeout, func() error { return w.becomes(t, want) })
			took[w.name] = w.state
		}
		results.Steps = append(results.Steps, floatingStepResult{step.name, time.Since(began).Milliseconds(), took})
		t.Logf("%s: %s", step.name, milliseconds(time.Since(began)))
	}
}

// of replaces the values that depend on earlier steps.
func (e expectation) of(w *floatingWorkload) expectation {
	for _, value := range []*int{&e.ready, &e.again, &e.kept} {
		switch *value {
		case near:
			*value = w.nearby
		case elsewhere:
			*value = w.replicas - w.nearby
		}
	}
	return e
}

// becomes compares a workload with its expectation, and the FloatingIPs with the pods' links. If all match, the state is
// the next step's earlier one.
func (w *floatingWorkload) becomes(t *testing.T, want expectation) error {
	now, nearby, err := w.read(t)
	if err != nil {
		return err
	}
	got := expectation{len(now.Pods), w.again(now), 0}
	for _, a := range now.Kept {
		if a.Is4() {
			got.kept++
		} else {
			got.kept += 1000
		}
	}
	if got.kept/1000 != got.kept%1000 {
		return fmt.Errorf("%s: kept addresses differ by family: %v", w, now.Kept)
	}
	got.kept %= 1000
	for _, c := range []struct{ got, want int }{{got.ready, want.ready}, {got.again, want.again}, {got.kept, want.kept}} {
		if c.want != some && c.got != c.want {
			return fmt.Errorf("%s: %+v, want %+v: %+v; before: %+v", w, got, want, now, w.state)
		}
	}
	for pod, addresses := range now.Pods {
		if err := agrees(t, pod, addresses); err != nil {
			return err
		}
	}
	w.state, w.nearby = now, nearby
	for pod, addresses := range now.Pods {
		w.lastOf[pod] = addresses
	}
	return nil
}

// again counts pods with an address as before.
func (w *floatingWorkload) again(now holding) (count int) {
	had := slices.Clone(w.state.Kept)
	for _, addresses := range w.state.Pods {
		had = append(had, addresses...)
	}
	for pod, addresses := range now.Pods {
		if w.kind == "StatefulSet" {
			had = w.lastOf[pod]
		}
		if !slices.ContainsFunc(addresses, func(a netip.Addr) bool { return !slices.Contains(had, a) }) {
			count++
		}
	}
	return count
}

// read reads who has the workload's addresses.
func (w *floatingWorkload) read(t *testing.T) (now holding, nearby int, err error) {
	pods, err := bed.pods(t.Context(), client.InNamespace(namespace), client.MatchingLabels{"app": w.name})
	if err != nil {
		return now, 0, err
	}
	now.Pods = map[string][]netip.Addr{}
	held := map[string][]netip.Addr{} // by pod UID
	for _, f := range floatingIPs(t, policyPool) {
		h, address := f.Spec.Holder, netip.MustParseAddr(string(f.Spec.Address))
		switch {
		case h == nil || h.Name != w.name || h.Kind != w.kind:
		case h.PodUID == "":
			now.Kept = append(now.Kept, address)
		default:
			held[string(h.PodUID)] = append(held[string(h.PodUID)], address)
		}
	}
	for i := range pods {
		p := &pods[i]
		if err := w.isSettled(p); err != nil {
			return now, 0, err
		}
		if p.Spec.NodeName == "" {
			continue
		}
		slices.SortFunc(held[string(p.UID)], netip.Addr.Compare)
		now.Pods[p.Name] = held[string(p.UID)]
		if delete(held, string(p.UID)); p.Spec.NodeName == staying() {
			nearby++
		}
	}
	if len(held) > 0 {
		return now, 0, fmt.Errorf("%s: pods that do not exist, or have no node, hold %v", w, held)
	}
	return now, nearby, nil
}

// isSettled returns nil if a pod is Ready, or waits for a node.
func (w *floatingWorkload) isSettled(p *corev1.Pod) error {
	if p.DeletionTimestamp != nil {
		return fmt.Errorf("pod %s ends", p.Name)
	}
	if p.Spec.NodeName == "" {
		return nil
	}
	return notReady(p)
}

// agrees compares the addresses that a pod holds with its status and with the addresses of eth0.
func agrees(t *testing.T, name string, held []netip.Addr) error {
	p := &corev1.Pod{}
	if err := bed.api.Get(t.Context(), named(name), p); err != nil {
		return err
	}
	inside, err := addressesIn(t.Context(), p)
	if err != nil {
		return err
	}
	var onLink []netip.Addr
	for _, text := range inside["eth0"] {
		onLink = append(onLink, netip.MustParseAddr(text))
	}
	slices.SortFunc(onLink, netip.Addr.Compare)
	status := addressesOf(p)
	slices.SortFunc(status, netip.Addr.Compare)
	if len(held) != 2 || !slices.Equal(held, onLink) || !slices.Equal(held, status) {
		return fmt.Errorf("pod %s holds %v, has %v on eth0, and %v in its status", p.Name, held, onLink, status)
	}
	return nil
}
