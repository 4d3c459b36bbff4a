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
	"github.com/weft-network/weft/pkg/operand"
)

// onNode are the workloads of every node in the order in which they are replaced there. Open vSwitch is the last: while it is restarted the node may have no
// network to get the image by.
var onNode = []string{operand.Controllers, operand.Agents, operand.Switches}

// workloadOf has the workload of a pod's component.
var workloadOf = map[string]string{"central": operand.Central, "ovs": operand.Switches, "ovn-controller": operand.Controllers, "agent": operand.Agents, "operator": operand.Operator}

// ComponentLabel of a pod is its part of the product.
const ComponentLabel = "app.kubernetes.io/component"

// Facts are what is wanted and what is there.
type Facts struct {
	Now time.Time
	// Patience is how long anything that was replaced may take to work.
	Patience time.Duration
	Operand  operand.Facts
	// Wanted and There are workloads by name.
	Wanted, There map[string]operand.Workload
	Pods          []corev1.Pod
	Nodes         []corev1.Node
	Networks      []networkv1alpha1.NodeNetwork
	Network       *networkv1alpha1.ClusterNetwork
}

// pod is one of the operands' pods.
type pod struct {
	name, uid, revision, shape, image, node, northd string
	ready, ending                                   bool
	members                                         bool      // it is of several members of the databases
	since                                           time.Time // it was made, or was ready last, or its deletion was asked for
	trouble                                         string    // kubelet's words; empty: none
	restarts                                        int       // of its containers
}

// node is one that Kubernetes hears of.
type node struct {
	name    string
	ready   bool           // its NodeNetwork is
	trouble string         // why it is not
	since   time.Time      // it is, or is not
	lost    time.Time      // Kubernetes hears nothing of its kubelet since then; zero: it does
	pods    map[string]pod // workload -> the latest
	network *networkv1alpha1.NodeNetwork
}

// view is Facts, sorted.
type view struct {
	Facts
	nodes    []node // by name; those that were lost by themselves left out
	central  pod    // the one of the databases' that counts now (centralOf); name empty: there is none, or one is missing
	centrals []pod
	operator []pod
	// difference is what the preflight said, where it is over now.
	difference string
}

func look(f Facts) view {
	v := view{Facts: f}
	networks := map[string]*networkv1alpha1.NodeNetwork{}
	for i := range f.Networks {
		networks[f.Networks[i].Name] = &f.Networks[i]
	}
	pods := map[string]map[string]pod{} // node -> workload -> pod
	for i := range f.Pods {
		v.add(pods, &f.Pods[i])
	}
	v.central = v.centralOf()
	for i := range f.Nodes {
		name := f.Nodes[i].Name
		n := node{name: name, lost: lostSince(&f.Nodes[i]), pods: pods[name], network: networks[name], trouble: "its agent has not reported yet"}
		if n.network != nil {
			if c := meta.FindStatusCondition(n.network.Status.Conditions, networkv1alpha1.ConditionReady); c != nil {
				n.ready, n.trouble, n.since = c.Status == "True", c.Message, c.LastTransitionTime.Time
			}
		}
		// One that was begun and is lost before it has proven anything is not left out: that may be why.
		if n.lost.IsZero() || !v.untouched(&n) && !v.proven(&n) {
			v.nodes = append(v.nodes, n)
		}
	}
	slices.SortFunc(v.nodes, func(a, b node) int { return cmp.Compare(a.name, b.name) })
	return v
}

// add sorts a pod in. One that is not ending counts more than one that is, and then the later.
func (v *view) add(byNode map[string]map[string]pod, object *corev1.Pod) {
	p := podOf(object)
	workload := workloadOf[object.Labels[ComponentLabel]]
	switch workload {
	case "":
	case operand.Operator:
		v.operator = append(v.operator, p)
	case operand.Central:
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
	found := pod{name: p.Name, uid: string(p.UID), revision: p.Annotations[operand.AnnotationRevision], shape: p.Annotations[operand.AnnotationShape], image: operand.ImageOf(p.Spec), node: targetOf(p),
		northd: p.Annotations[operand.AnnotationNorthd], members: p.Annotations[operand.AnnotationMembers] != "", since: p.CreationTimestamp.Time, ending: p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded}
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
			found.ready, found.trouble = false, "its containers are restarted"
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

// restarted reads what Restarted has written.
func restarted(p *corev1.Pod) (before int, at time.Time, ok bool) {
	count, when, ok := strings.Cut(p.Annotations[operand.AnnotationRestarted], " ")
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

// Restarted gives a pod the images of a template. kubelet then restarts its containers.
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
	for _, key := range []string{operand.AnnotationRevision, operand.AnnotationShape} {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, template.Annotations[key])
	}
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, operand.AnnotationRestarted, fmt.Sprintf("%d %s", restarts, now.UTC().Format(time.RFC3339)))
	return p
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// targetOf is the pod's node, also before the scheduler has given it there: a DaemonSet's pod asks for one by name.
func targetOf(p *corev1.Pod) string {
	if p.Spec.NodeName != "" || p.Spec.Affinity == nil || p.Spec.Affinity.NodeAffinity == nil || p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
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

// Lost tells whether Kubernetes hears nothing of a node: nothing can be replaced there.
func Lost(n *corev1.Node) bool { return !lostSince(n).IsZero() }

func lostSince(n *corev1.Node) time.Time {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown {
			return latest(c.LastTransitionTime.Time, time.Unix(1, 0))
		}
	}
	return time.Time{}
}

// released tells whether a workload has the wanted image, or was applied as it is wanted and is not as it was applied: then somebody has changed it.
func (v *view) released(name string) bool {
	there, wanted := v.There[name], v.Wanted[name]
	return there != nil && (operand.ImageOf(operand.Template(there).Spec) == v.Operand.Image ||
		wanted != nil && there.GetAnnotations()[operand.AnnotationApplied] == wanted.GetAnnotations()[operand.AnnotationApplied])
}

// settled tells whether who makes a workload's pods has seen how they are wanted: one that was deleted before would come back as it was.
func (v *view) settled(name string) bool {
	there := v.There[name]
	return there != nil && Seen(there) == there.GetGeneration()
}

// Seen is the generation of a workload that who makes its pods has seen.
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

// old tells whether a pod that is there is not the wanted one.
func (v *view) old(name string, p pod) bool {
	wanted := v.Wanted[name]
	if p.name == "" || p.ending || wanted == nil || p.revision == operand.Template(wanted).Annotations[operand.AnnotationRevision] {
		return false
	}
	return name != operand.Switches || v.sameShape(p) || v.inKernel(p.node)
}

// sameShape tells whether a pod of Open vSwitch differs from the wanted one in its images at most.
func (v *view) sameShape(p pod) bool {
	return p.shape == operand.Template(v.Wanted[operand.Switches]).Annotations[operand.AnnotationShape]
}

// inKernel tells whether a node's packets go on without ovs-vswitchd. Where they do not, a pod of Open vSwitch that was deleted might not be followed by another.
func (v *view) inKernel(node string) bool {
	return slices.ContainsFunc(v.Networks, func(nn networkv1alpha1.NodeNetwork) bool {
		return nn.Name == node && nn.Status.DatapathType == networkv1alpha1.DatapathSystem
	})
}

// disturbed: it is not there, or ends.
func (p pod) disturbed() bool { return p.name == "" || p.ending }
