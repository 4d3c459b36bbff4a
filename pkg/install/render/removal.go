package render

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/yaml"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/config"
)

// Finalizer is on the ClusterNetwork, so that its deletion ends only when nothing is left on any node.
const Finalizer = networkv1alpha1.OperandsFinalizer

// Workloads in the order of removal. Those in RemovedFirst would recreate what the DaemonSet Uninstall removes from
// nodes. Uninstall needs those in RemovedLast.
var (
	RemovedFirst = []string{Operator, Agents, Controllers, IKE}
	RemovedLast  = []string{Uninstall, Switches, Relays, Sources, Central}
)

const (
	// Uninstall is the name of the DaemonSet of Removal.
	Uninstall = "weft-uninstall"
	// Switches is the name of Open vSwitch's DaemonSet.
	Switches = "weft-ovs"
)

// podsNamed limits the pods that a message names.
const podsNamed = 5

// Users are the pods that have an interface of the network.
type Users struct {
	Names []string // namespace/name
	More  bool     // whether there are more pods than Names
}

// String returns the number of pods and the names of the first.
func (u Users) String() string {
	if len(u.Names) == 0 {
		return "no pod uses the network"
	}
	count, verb := fmt.Sprintf("%d pods", len(u.Names)), "use"
	switch {
	case u.More:
		count = fmt.Sprintf("more than %d pods", len(u.Names))
	case len(u.Names) == 1:
		count, verb = "1 pod", "uses"
	}
	text := fmt.Sprintf("%s %s the network: %s", count, verb, strings.Join(u.Names[:min(len(u.Names), podsNamed)], ", "))
	if len(u.Names) > podsNamed {
		text += ", ..."
	}
	return text
}

// RemovalStep is the next step for a ClusterNetwork that is being deleted. At most one of Keep and Remove is true.
type RemovalStep struct {
	// Reason and Message are for the condition Removing.
	Reason, Message string
	// Keep means that nothing is removed yet, and that the operands are maintained as usual.
	Keep bool
	// Remove means that the network must be removed now.
	Remove bool
}

// NextRemovalStep computes the next step of a removal from a ClusterNetwork that has the finalizer and a
// deletionTimestamp. A removal has begun once the ClusterNetwork's condition Removing says so. From then on pods no
// longer delay it.
func NextRemovalStep(cn *networkv1alpha1.ClusterNetwork, users Users) RemovalStep {
	confirmed, begun := networkv1alpha1.RemovalConfirmed(cn), RemovalBegun(cn)
	confirmation := fmt.Sprintf("annotation %s=%s", networkv1alpha1.ConfirmRemovalAnnotation, cn.UID)
	switch {
	case begun && !confirmed:
		return RemovalStep{Reason: networkv1alpha1.ReasonRemovingOperands,
			Message: "the removal has begun, but stopped because its confirmation was withdrawn; it continues with the " + confirmation}
	case begun:
		return RemovalStep{Reason: networkv1alpha1.ReasonRemovingOperands, Message: removingFirst, Remove: true}
	case !confirmed && len(users.Names) == 0:
		return RemovalStep{Reason: networkv1alpha1.ReasonWaitingForConfirmation, Keep: true,
			Message: fmt.Sprintf("nothing is removed without the %s; %v, so the removal starts as soon as it is set", confirmation, users)}
	case !confirmed:
		return RemovalStep{Reason: networkv1alpha1.ReasonWaitingForConfirmation, Keep: true,
			Message: fmt.Sprintf("nothing is removed without the %s; %v", confirmation, users)}
	case len(users.Names) > 0:
		return RemovalStep{Reason: networkv1alpha1.ReasonPodsRemain, Keep: true,
			Message: fmt.Sprintf("nothing is removed while %v", users)}
	}
	return RemovalStep{Reason: networkv1alpha1.ReasonRemovingOperands, Message: removingFirst, Remove: true}
}

// removingFirst is the message of a removal's first step.
const removingFirst = "removing the operator, agents and ovn-controllers"

// RemovalBegun reports whether the removal of a network has begun.
func RemovalBegun(cn *networkv1alpha1.ClusterNetwork) bool {
	c := meta.FindStatusCondition(cn.Status.Conditions, networkv1alpha1.ConditionRemoving)
	return c != nil && c.Reason == networkv1alpha1.ReasonRemovingOperands && slices.Contains(cn.Finalizers, Finalizer)
}

// Removal returns a DaemonSet whose pods become ready when nothing of the network is left on their nodes. It runs
// config/uninstall, and then removes what the programs of OVN and Open vSwitch leave behind.
func Removal(f Facts) (*appsv1.DaemonSet, error) {
	text, err := config.Operands.ReadFile("uninstall/daemonset.yaml")
	if err != nil {
		return nil, err
	}
	w := &appsv1.DaemonSet{}
	if err := yaml.Unmarshal(bytes.TrimSpace(text), w); err != nil {
		return nil, err
	}
	w.SetNamespace(f.Namespace)
	pod := &w.Spec.Template.Spec
	clean := corev1.Container{Name: "clear", Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
		Command:         []string{"/usr/bin/weft-ovn", "clear"},
		SecurityContext: pod.InitContainers[0].SecurityContext}
	for _, mount := range []struct{ name, path string }{
		{"openvswitch", ""}, {"ovn", "/run/ovn"}, {"databases", "/var/lib/ovn"}, {"weft", ""},
	} {
		if mount.path != "" {
			created := corev1.HostPathDirectoryOrCreate
			pod.Volumes = append(pod.Volumes, corev1.Volume{Name: mount.name,
				VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: mount.path, Type: &created}}})
			clean.VolumeMounts = append(clean.VolumeMounts, corev1.VolumeMount{Name: mount.name, MountPath: mount.path})
			continue
		}
		for _, m := range pod.InitContainers[0].VolumeMounts {
			if m.Name == mount.name {
				clean.VolumeMounts = append(clean.VolumeMounts, m)
			}
		}
	}
	pod.InitContainers = append(pod.InitContainers, clean)
	fillPod(f, &w.Spec.Template)
	removalPaths(w, f.Components.Agent.Paths)
	digest, err := digestOf(w)
	if err != nil {
		return nil, err
	}
	annotate(w, AnnotationApplied, digest)
	return w, nil
}
