package operand

import (
	"bytes"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/weft-network/weft/config"
)

// Finalizer on the ClusterNetwork: its deletion ends when nothing is left on any node.
const Finalizer = "network.weft.dev/operands"

// What is removed, in this order. The first would make again what the DaemonSet Uninstall takes off each node, and the last are what that needs.
var (
	RemovedFirst = []string{Operator, Agents, Controllers}
	RemovedLast  = []string{Uninstall, Switches, Central}
)

const (
	// Uninstall is the name of the DaemonSet of Removal.
	Uninstall = "weft-uninstall"
	// Switches is the name of Open vSwitch's.
	Switches = "weft-ovs"
)

// Removal is a DaemonSet whose pods are ready when nothing of the network is left on their node: config/uninstall, and then what programs of OVN
// and Open vSwitch would leave.
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
	clean := corev1.Container{Name: "clear", Image: image, ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{"/usr/bin/weft-ovn", "clear"},
		SecurityContext: pod.InitContainers[0].SecurityContext}
	for _, mount := range []struct{ name, path string }{{"openvswitch", ""}, {"ovn", "/run/ovn"}, {"databases", "/var/lib/ovn"}, {"weft", ""}} {
		if mount.path != "" {
			created := corev1.HostPathDirectoryOrCreate
			pod.Volumes = append(pod.Volumes, corev1.Volume{Name: mount.name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: mount.path, Type: &created}}})
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
	digest, err := digestOf(w)
	if err != nil {
		return nil, err
	}
	annotate(w, AnnotationApplied, digest)
	return w, nil
}
