package render

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/weft-network/weft/pkg/install/programs"
)

// Names of workloads; Central and Switches are declared elsewhere.
const (
	Controllers = "weft-ovn-controller"
	Agents      = AgentAccount
	Operator    = "weft-operator"
)

// revise annotates a template with the digests of its essence and its shape.
func revise(f Facts, t *corev1.PodTemplateSpec, shape string) error {
	digest, err := digestOf(essence(f, t))
	if err != nil {
		return err
	}
	annotate(&t.ObjectMeta, AnnotationRevision, digest)
	annotate(&t.ObjectMeta, AnnotationShape, shape)
	return nil
}

// shapeOf returns a pod's specification without images and pull secrets.
func shapeOf(t *corev1.PodTemplateSpec) *corev1.PodSpec {
	spec := t.Spec.DeepCopy()
	spec.ImagePullSecrets = nil
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			list[i].Image = ""
		}
	}
	return spec
}

// essence returns the parts of a template that require a new pod when they change. It excludes the pull secrets, and
// the nodes that a cluster's members, or relays and their sources, may use. A container that runs weft-ovn has the
// program's build in place of its image.
func essence(f Facts, t *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	e := t.DeepCopy()
	e.Spec.ImagePullSecrets = nil
	if component := e.Labels["app.kubernetes.io/component"]; e.Annotations[AnnotationMembers] != "" ||
		component == "relay" || component == "relay-source" {
		e.Spec.Affinity = nil
	}
	for _, c := range containersOf(e) {
		if len(c.Command) < 2 || c.Command[0] != programs.Launcher {
			continue
		}
		if p, known := f.Programs[c.Command[1]]; known {
			c.Image = p.Build
		}
	}
	return e
}

// ImageOf returns the image of a pod's containers, which all use the same image.
func ImageOf(spec corev1.PodSpec) string {
	if len(spec.Containers) == 0 {
		return ""
	}
	return spec.Containers[0].Image
}
