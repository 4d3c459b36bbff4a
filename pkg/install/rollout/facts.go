package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/install/render"
)

// onNode lists the workloads of every node in the order of replacement. Open vSwitch is last, because the node may
// have no network to pull the image while Open vSwitch restarts.
var onNode = []string{render.Controllers, render.Agents, render.Switches}

// workloadOf maps the component label of a pod to the pod's workload.
var workloadOf = map[string]string{
	"central": render.Central, "ovs": render.Switches, "ovn-controller": render.Controllers,
	"agent": render.Agents, "operator": render.Operator,
}

// ComponentLabel of a pod names its component.
const ComponentLabel = "app.kubernetes.io/component"

// Facts are the wanted and the observed state.
type Facts struct {
	Now time.Time
	// Patience is how long a replaced object may take to become ready.
	Patience time.Duration
	Operand  render.Facts
	// Settings is the digest of what is set for the operands.
	Settings string
	// Wanted and There are the wanted and the existing workloads by name.
	Wanted, There map[string]render.Workload
	Pods          []corev1.Pod
	Nodes         []corev1.Node
	Networks      []networkv1alpha1.NodeNetwork
	Network       *networkv1alpha1.ClusterNetwork
}

// pod describes a pod of the operands.
type pod struct {
	name, uid, revision, shape, image, node, northd string
	settings                                        string // their digest
	ready, ending                                   bool
	members                                         bool // it belongs to clustered databases
	created                                         time.Time
	since                                           time.Time // creation, last change of readiness, or deletion
	trouble                                         string    // kubelet's reason why it does not run; empty without one
	restarts                                        int       // sum over its containers
}

// node describes a Node.
type node struct {
	name    string
	ready   bool           // its NodeNetwork is ready
	trouble string         // why it is not ready
	since   time.Time      // last change of ready
	lost    time.Time      // when its kubelet stopped reporting; zero while it reports
	pods    map[string]pod // the latest pod of each workload
	network *networkv1alpha1.NodeNetwork
}

// view is Facts in indexed form.
type view struct {
	Facts
	nodes    []node // by name, without nodes that were lost for other reasons than the rollout
	central  pod    // the databases' pod that counts now (centralOf); no name: no pod, or a member is missing
	centrals []pod
	operator []pod
	relays   map[string][]pod // of each workload of relays
	zonePods map[string]zonePods
	// difference is the result of the preflight if it is over.
	difference string
}

// newView indexes the facts.
func newView(f Facts) view {
	v := view{Facts: f, relays: map[string][]pod{}, zonePods: map[string]zonePods{}}
	networks := map[string]*networkv1alpha1.NodeNetwork{}
	for i := range f.Networks {
		networks[f.Networks[i].Name] = &f.Networks[i]
	}
	pods := map[string]map[string]pod{} // node -> workload -> pod
	for i := range f.Pods {
		v.add(pods, &f.Pods[i])
	}
	v.central = v.centralOf(render.Central, v.centrals, f.Operand.Place)
	for i := range f.Nodes {
		name := f.Nodes[i].Name
		n := node{name: name, lost: lostSince(&f.Nodes[i]), pods: pods[name], network: networks[name],
			trouble: "its agent has not reported yet"}
		if n.network != nil {
			if c := meta.FindStatusCondition(n.network.Status.Conditions, networkv1alpha1.ConditionReady); c != nil {
				n.ready, n.trouble, n.since = c.Status == "True", c.Message, c.LastTransitionTime.Time
			}
			n.addGateway()
		}
		// Keep a node that was lost during its upgrade, because the upgrade may be the cause.
		if n.lost.IsZero() || !v.untouched(&n) && !v.proven(&n) {
			v.nodes = append(v.nodes, n)
		}
	}
	slices.SortFunc(v.nodes, func(a, b node) int { return cmp.Compare(a.name, b.name) })
	return v
}

// addGateway counts a node as not ready whose gateway failed after its agent's pod was created: pods can be attached, and nothing keeps
// the way outside. A gateway that had failed before is not the pod's fault.
func (n *node) addGateway() {
	c := meta.FindStatusCondition(n.network.Status.Conditions, networkv1alpha1.ConditionGatewayReady)
	if n.ready && c != nil && c.Status == metav1.ConditionFalse && c.LastTransitionTime.After(n.pods[render.Agents].created) {
		n.ready, n.trouble, n.since = false, c.Type+": "+c.Message, c.LastTransitionTime.Time
	}
}

// add indexes a pod. Of a workload's pods on a node it keeps the latest, and prefers pods that are not terminating.
func (v *view) add(byNode map[string]map[string]pod, object *corev1.Pod) {
	if v.addToZone(object) {
		return
	}
	p := podOf(object)
	if render.IsRelay(object) || render.IsSource(object) {
		workload := "weft-" + object.Labels[ComponentLabel]
		v.relays[workload] = append(v.relays[workload], p)
		return
	}
	workload := workloadOf[object.Labels[ComponentLabel]]
	switch workload {
	case "":
	case render.Operator:
		v.operator = append(v.operator, p)
	case render.Central:
		v.centrals = append(v.centrals, p)
	default:
		if byNode[p.node] == nil {
			byNode[p.node] = map[string]pod{}
		}
		byNode[p.node][workload] = later(byNode[p.node][workload], p)
	}
}

func later(a, b pod) pod {
	if a.name == "" || a.ending && !b.ending || a.ending == b.ending && b.since.After(a.since) {
		return b
	}
	return a
}

func podOf(p *corev1.Pod) pod {
	found := pod{
		name: p.Name, uid: string(p.UID), node: targetOf(p), image: render.ImageOf(p.Spec),
		revision: p.Annotations[render.AnnotationRevision], shape: p.Annotations[render.AnnotationShape],
		settings: p.Annotations[render.AnnotationSettings],
		northd:   p.Annotations[render.AnnotationNorthd], members: p.Annotations[render.AnnotationMembers] != "",
		created: p.CreationTimestamp.Time,
		since:   p.CreationTimestamp.Time,
		ending:  p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded,
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			found.ready, found.since = c.Status == corev1.ConditionTrue, latest(found.since, c.LastTransitionTime.Time)
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		found.restarts += int(c.RestartCount)
	}
	if before, at, ok := restarted(p); ok {
		found.since = latest(found.since, at)
		if found.restarts < before+len(p.Spec.Containers) {
			found.ready, found.trouble = false, "its containers are being restarted"
		}
	}
	if !p.DeletionTimestamp.IsZero() {
		found.ending, found.since = true, p.DeletionTimestamp.Time
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil && found.trouble == "" {
			found.trouble = "container " + c.Name + ": " + w.Reason
		}
	}
	return found
}

// restarted parses the annotation that Restarted sets.
func restarted(p *corev1.Pod) (before int, at time.Time, ok bool) {
	count, when, ok := strings.Cut(p.Annotations[render.AnnotationRestarted], " ")
	if !ok {
		return 0, at, false
	}
	before, err := strconv.Atoi(count)
	if err != nil {
		return 0, at, false
	}
	at, err = time.Parse(time.RFC3339, when)
	return before, at, err == nil
}

// Restarted returns a copy of the pod with the images of a template. kubelet then restarts its containers.
func Restarted(p *corev1.Pod, template *corev1.PodTemplateSpec, now time.Time) *corev1.Pod {
	p = p.DeepCopy()
	restarts := 0
	for _, c := range p.Status.ContainerStatuses {
		restarts += int(c.RestartCount)
	}
	for i := range p.Spec.Containers {
		for _, c := range template.Spec.Containers {
			if c.Name == p.Spec.Containers[i].Name {
				p.Spec.Containers[i].Image = c.Image
			}
		}
	}
	for _, key := range []string{render.AnnotationRevision, render.AnnotationShape} {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, template.Annotations[key])
	}
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, render.AnnotationRestarted, fmt.Sprintf("%d %s", restarts, now.UTC().Format(time.RFC3339)))
	return p
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// targetOf returns the pod's node. Before scheduling, it is the node that the pod of a DaemonSet must run on.
func targetOf(p *corev1.Pod) string {
	if p.Spec.NodeName != "" || p.Spec.Affinity == nil || p.Spec.Affinity.NodeAffinity == nil ||
		p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return p.Spec.NodeName
	}
	for _, term := range p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == "metadata.name" && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
}

// Lost reports whether a node's kubelet has stopped reporting. No pod can be replaced on such a node.
func Lost(n *corev1.Node) bool { return !lostSince(n).IsZero() }

func lostSince(n *corev1.Node) time.Time {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown {
			return latest(c.LastTransitionTime.Time, time.Unix(1, 0))
		}
	}
	return time.Time{}
}

// released reports whether a workload has the wanted image and settings, or was last applied in its wanted form. In the second
// case any difference is a foreign change.
func (v *view) released(name string) bool {
	there, wanted := v.There[name], v.Wanted[name]
	return there != nil && (render.ImageOf(render.Template(there).Spec) == v.Operand.Image &&
		there.GetAnnotations()[render.AnnotationSettings] == v.settings(name) ||
		wanted != nil && there.GetAnnotations()[render.AnnotationApplied] == wanted.GetAnnotations()[render.AnnotationApplied])
}

// settings returns the digest of what is set for a workload.
func (v *view) settings(name string) string {
	if wanted := v.Wanted[name]; wanted != nil {
		return wanted.GetAnnotations()[render.AnnotationSettings]
	}
	return ""
}

// isCurrent reports whether a pod has the wanted image and settings. Any other difference is a foreign change.
func (v *view) isCurrent(name string, p pod) bool {
	return p.image == v.Operand.Image && p.settings == v.settings(name)
}

// settled reports whether the workload's controller has observed its current template. A pod deleted earlier could be
// recreated from the previous template.
func (v *view) settled(name string) bool {
	there := v.There[name]
	return there != nil && Seen(there) == there.GetGeneration()
}

// Seen returns the generation of a workload that its controller has observed.
func Seen(w any) int64 {
	switch w := w.(type) {
	case *appsv1.DaemonSet:
		return w.Status.ObservedGeneration
	case *appsv1.StatefulSet:
		return w.Status.ObservedGeneration
	case *appsv1.Deployment:
		return w.Status.ObservedGeneration
	}
	return 0
}

// old reports whether a pod exists and must be replaced or restarted.
func (v *view) old(name string, p pod) bool {
	wanted := v.Wanted[name]
	if p.name == "" || p.ending || wanted == nil || p.revision == render.Template(wanted).Annotations[render.AnnotationRevision] {
		return false
	}
	return name != render.Switches || v.inKernel(p.node) || v.sameShape(p) && p.image != v.Operand.Image
}

// sameShape reports whether a pod of Open vSwitch differs from the wanted pod only in its images and settings.
func (v *view) sameShape(p pod) bool {
	return p.shape == render.Template(v.Wanted[render.Switches]).Annotations[render.AnnotationShape]
}

// inKernel reports whether a node forwards packets without ovs-vswitchd. On other nodes a deleted pod of Open vSwitch
// might never be replaced, because the node has no network without it.
func (v *view) inKernel(node string) bool {
	return slices.ContainsFunc(v.Networks, func(nn networkv1alpha1.NodeNetwork) bool {
		return nn.Name == node && nn.Status.DatapathType == networkv1alpha1.DatapathSystem
	})
}

// disturbed reports whether the pod is missing or terminating.
func (p pod) disturbed() bool { return p.name == "" || p.ending }
