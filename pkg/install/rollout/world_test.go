package rollout

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/install/programs"
	"github.com/weft-network/weft/pkg/install/render"
)

// release is a version of Weft with its versions of OVN and Open vSwitch.
type release struct{ version, ovn, ovs string }

func (r release) image() string { return "weft:" + r.version }

func (r release) programs() programs.Set {
	ovn, ovs := programs.Program{Version: r.ovn, Build: "ovn " + r.ovn}, programs.Program{Version: r.ovs, Build: "ovs " + r.ovs}
	return programs.Set{"chassis": {Build: "c1"}, "nb": ovn, "sb": ovn, "northd": ovn, "controller": ovn, "relay": ovn,
		"ovsdb": ovs, "vswitchd": ovs}
}

var (
	v1      = release{"v1.0.0", "25.03.0", "3.5.0"}
	v2      = release{"v1.1.0", "25.03.0", "3.5.0"}
	newOVN  = release{"v1.1.0-ovn", "25.09.0", "3.5.0"}
	newOVS  = release{"v1.1.0-ovs", "25.03.0", "3.5.1"}
	skipped = release{"v1.2.0", "25.03.0", "3.5.0"}
)

// world simulates Kubernetes' controllers, the kubelets and the agents. Time passes only when a test advances it.
type world struct {
	*testing.T
	wanted  release
	set     networkv1alpha1.Components
	now     time.Time
	there   map[string]render.Workload
	pods    map[string]*corev1.Pod // by name
	nodes   []corev1.Node
	nets    []networkv1alpha1.NodeNetwork
	network *networkv1alpha1.ClusterNetwork
	made    int
	// done lists the steps so far, such as "apply weft-agent" and "replace n1/weft-agent".
	done []string
	// broken holds "node image": agents that reach no other node while they run the image.
	broken map[string]bool
	// unready holds "workload image" or "workload settings": pods that never become ready.
	unready map[string]bool
	// members is the number of database members; 0 means 1.
	members int
	// relays are the nodes of relays, and zoneRelays the nodes of zones' relays.
	relays     []string
	zoneRelays map[string][]string
	// zones are the zones. The first has its databases on n2, the second on n3.
	zones []string
	// zoneMembers is the number of database members of each zone; 0 means 1. They are on consecutive nodes.
	zoneMembers int
	// output is the termination message of a preflight; "hangs" means that the preflight does not end.
	output string
	// stuck keeps containers from starting again.
	stuck bool
}

func newWorld(t *testing.T, r release, nodes ...string) *world {
	w := &world{
		T: t, wanted: r, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		there: map[string]render.Workload{}, pods: map[string]*corev1.Pod{}, broken: map[string]bool{}, unready: map[string]bool{},
	}
	w.network = &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	w.network.Spec.Upgrade.MaxUnavailable = 1
	for i, name := range nodes {
		w.nodes = append(w.nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		nn := networkv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: name}}
		address := networkv1alpha1.InterfaceAddress(fmt.Sprintf("10.244.%d.2/24", i))
		nn.Spec.ManagementPort.Addresses = []networkv1alpha1.InterfaceAddress{address}
		nn.Status.DatapathType = networkv1alpha1.DatapathSystem
		w.nets = append(w.nets, nn)
	}
	w.settle()
	w.expect(networkv1alpha1.RolloutComplete)
	w.done = nil
	return w
}

func (w *world) facts() Facts {
	w.Helper()
	f := Facts{
		Now: w.now, Patience: 5 * time.Minute, Network: w.network.DeepCopy(),
		Wanted: map[string]render.Workload{}, There: maps.Clone(w.there), Nodes: w.nodes, Networks: w.nets,
	}
	f.Operand = render.Facts{
		Namespace: "weft-system", Image: w.wanted.image(), Version: w.wanted.version, Programs: w.wanted.programs(),
		APIServerHost: "192.0.2.1", APIServerPort: "6443", Place: render.Place{Wanted: max(1, w.members)}, Components: w.set,
	}
	var err error
	if f.Settings, err = render.SettingsDigest(w.set); err != nil {
		w.Fatal(err)
	}
	addresses := []netip.Addr{netip.MustParseAddr("192.0.2.11")}
	for i := range f.Operand.Place.Wanted {
		f.Operand.Place.Members = append(f.Operand.Place.Members, render.Member{Node: fmt.Sprintf("n%d", i+1), Addresses: addresses})
	}
	for _, node := range w.relays {
		f.Operand.Place.Relays = append(f.Operand.Place.Relays, render.Member{Node: node, Addresses: addresses})
	}
	for i, zone := range w.zones {
		place := render.Place{Wanted: max(1, w.zoneMembers)}
		for slot := range place.Wanted {
			place.Members = append(place.Members, render.Member{Node: fmt.Sprintf("n%d", i+2+slot), Addresses: addresses})
		}
		for _, node := range w.zoneRelays[zone] {
			place.Relays = append(place.Relays, render.Member{Node: node, Addresses: addresses})
		}
		f.Operand.Place.Zones = append(f.Operand.Place.Zones, render.Zone{Name: zone, NodeSelector: map[string]string{"zone": zone},
			Place: place})
	}
	all, err := render.Workloads(f.Operand)
	if err != nil {
		w.Fatal(err)
	}
	for _, one := range all {
		f.Wanted[one.GetName()] = one
	}
	for _, p := range w.pods {
		f.Pods = append(f.Pods, *p)
	}
	return f
}

// turn executes one step and then simulates the other components. It reports whether the step did anything.
func (w *world) turn() bool {
	w.Helper()
	f := w.facts()
	step := Plan(f)
	before := w.network.Status.Rollout
	w.network.Status.Rollout = &step.Status
	moved := before == nil || *before != step.Status
	for _, name := range step.Apply {
		moved = w.apply(f.Wanted[name]) || moved
	}
	for _, name := range step.Replace {
		w.done = append(w.done, "replace "+name)
		delete(w.pods, name)
		moved = true
	}
	for _, name := range step.Restart {
		w.done = append(w.done, "replace "+name)
		w.pods[name] = Restarted(w.pods[name], render.Template(f.Wanted[render.Switches]), w.now)
		moved = true
	}
	if step.StartPreflight {
		pod := render.PreflightPod("weft-system", f.Wanted[render.Operator])
		pod.CreationTimestamp = metav1.NewTime(w.now)
		w.pods[pod.Name], moved = pod, true
		w.done = append(w.done, "start preflight")
	}
	if step.DeletePreflight {
		delete(w.pods, render.Preflight)
		w.done, moved = append(w.done, "delete preflight"), true
	}
	for name, request := range step.Probes {
		moved = w.requestProbe(name, request) || moved
	}
	w.play()
	return moved
}

// settle takes turns until two in a row do nothing, because a turn sees the reactions of the other components only in
// the next one.
func (w *world) settle() {
	w.Helper()
	for idle, turns := 0, 0; turns < 1000; turns++ {
		if w.turn() {
			idle = 0
		} else if idle++; idle == 2 {
			return
		}
	}
	w.Fatalf("the rollout does not settle: %+v", w.network.Status.Rollout)
}

func (w *world) apply(want render.Workload) bool {
	have := w.there[want.GetName()]
	if differs, err := render.Differs(want, have); err != nil {
		w.Fatal(err)
	} else if !differs {
		return false
	}
	w.done = append(w.done, "apply "+want.GetName())
	w.there[want.GetName()] = want
	return true
}

func (w *world) requestProbe(node string, request networkv1alpha1.ProbeRequest) bool {
	text, err := json.Marshal(request)
	if err != nil {
		w.Fatal(err)
	}
	nn := w.net(node)
	if nn.Annotations[networkv1alpha1.ProbeAnnotation] == string(text) {
		return false
	}
	metav1.SetMetaDataAnnotation(&nn.ObjectMeta, networkv1alpha1.ProbeAnnotation, string(text))
	return true
}

func (w *world) net(node string) *networkv1alpha1.NodeNetwork {
	return &w.nets[slices.IndexFunc(w.nets, func(nn networkv1alpha1.NodeNetwork) bool { return nn.Name == node })]
}

// play creates missing pods, restarts containers and makes agents answer.
func (w *world) play() {
	for name, one := range w.there {
		switch object := one.(type) {
		case *appsv1.DaemonSet:
			for _, n := range w.nodes {
				if w.runs(name, one.GetLabels()[render.LabelZone], n.Name) {
					w.pod(n.Name+"/"+name, n.Name, one)
				}
			}
		case *appsv1.StatefulSet:
			first, short := 1, strings.TrimPrefix(name, "weft-")
			if i := slices.Index(w.zones, one.GetLabels()[render.LabelZone]); i >= 0 {
				first = i + 2
			}
			w.pod(short, fmt.Sprintf("n%d", first), one)
			for i := 1; i < int(*object.Spec.Replicas); i++ {
				w.pod(fmt.Sprintf("%s%d", short, i+1), fmt.Sprintf("n%d", first+i), one)
			}
		case *appsv1.Deployment:
			revision, pod := object.Spec.Template.Annotations[render.AnnotationRevision], strings.TrimPrefix(name, "weft-")
			if p := w.pods[pod]; p != nil && p.Annotations[render.AnnotationRevision] != revision {
				delete(w.pods, pod)
			}
			w.pod(pod, "n1", one)
		}
	}
	for _, p := range w.pods {
		w.restart(p)
	}
	for i := range w.nets {
		w.answer(&w.nets[i])
	}
	if p := w.pods[render.Preflight]; p != nil && w.output != "hangs" {
		p.Status.Phase = corev1.PodSucceeded
		terminated := &corev1.ContainerStateTerminated{Message: w.output}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: terminated}}}
	}
}

// runs reports whether a DaemonSet, of a zone or of none, has a pod on a node.
func (w *world) runs(name, zone, node string) bool {
	relays, source := w.relays, "n1"
	if i := slices.Index(w.zones, zone); i >= 0 {
		relays, source = w.zoneRelays[zone], fmt.Sprintf("n%d", i+2)
	}
	switch name {
	case render.RelaysOf(zone):
		return slices.Contains(relays, node)
	case render.SourcesOf(zone):
		return node == source
	}
	return true
}

// restart simulates kubelet, a step after the pod got other images.
func (w *world) restart(p *corev1.Pod) {
	before, _, ok := restarted(p)
	if !ok || w.stuck {
		return
	}
	p.Status.ContainerStatuses = make([]corev1.ContainerStatus, len(p.Spec.Containers))
	for i := range p.Status.ContainerStatuses {
		p.Status.ContainerStatuses[i].RestartCount = int32(before + 1)
	}
	if w.unready[render.Switches+" "+render.ImageOf(p.Spec)] {
		p.Status.Conditions[0].Status = corev1.ConditionFalse
	}
}

func (w *world) pod(name, node string, of render.Workload) {
	if w.pods[name] != nil {
		return
	}
	w.made++
	template := render.Template(of)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(fmt.Sprint(w.made)), CreationTimestamp: metav1.NewTime(w.now),
		Labels: template.Labels, Annotations: template.Annotations,
	}, Spec: *template.Spec.DeepCopy()}
	p.Spec.NodeName, p.Spec.Affinity = node, nil
	status := corev1.ConditionTrue
	if w.unready[of.GetName()+" "+render.ImageOf(p.Spec)] || w.unready[of.GetName()+" "+p.Annotations[render.AnnotationSettings]] {
		status = corev1.ConditionFalse
	}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
	w.pods[name] = p
}

func (w *world) answer(nn *networkv1alpha1.NodeNetwork) {
	agent := w.pods[nn.Name+"/"+render.Agents]
	if agent == nil {
		return
	}
	nn.Status.AgentVersion = strings.TrimPrefix(render.ImageOf(agent.Spec), "weft:")
	if len(nn.Status.Conditions) == 0 {
		nn.Status.Conditions = []metav1.Condition{{Type: networkv1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	}
	request, ok := networkv1alpha1.ReadProbeRequest(nn.Annotations)
	if !ok {
		return
	}
	nn.Status.Probe = &networkv1alpha1.ProbeStatus{ID: request.ID}
	if w.broken[nn.Name+" "+render.ImageOf(agent.Spec)] {
		nn.Status.Probe.Error = fmt.Sprintf("%v does not answer", request.Peers)
	}
}

func (w *world) expect(state networkv1alpha1.RolloutState) networkv1alpha1.RolloutStatus {
	w.Helper()
	s := *w.network.Status.Rollout
	if s.State != state {
		w.Fatalf("state %s, want %s: %s\n%s", s.State, state, s.Text(), strings.Join(w.done, "\n"))
	}
	return s
}

// replaced returns the replacements so far in short form. Of the applied workloads it includes only the operators.
func (w *world) replaced() string {
	var found []string
	for _, one := range w.done {
		if name, ok := strings.CutPrefix(one, "replace "); ok {
			found = append(found, strings.ReplaceAll(name, "weft-", ""))
		} else if name, ok := strings.CutPrefix(one, "apply weft-"); ok && strings.HasPrefix(name, "operator") {
			found = append(found, name)
		}
	}
	return strings.Join(found, " ")
}
