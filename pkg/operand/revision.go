package operand

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/weft-network/weft/pkg/programs"
)

// Names of workloads, beside Central and Switches.
const (
	Controllers = "weft-ovn-controller"
	Agents      = AgentAccount
	Operator    = "weft-operator"
)

// revise notes in a template the digest of what its pods are made of.
func revise(f Facts, t *corev1.PodTemplateSpec) error {
	digest, err := digestOf(essence(f, t))
	if err != nil {
		return err
	}
	shape, err := digestOf(shapeOf(t))
	if err != nil {
		return err
	}
	annotate(&t.ObjectMeta, AnnotationRevision, digest)
	annotate(&t.ObjectMeta, AnnotationShape, shape)
	return nil
}

// shapeOf is a pod's specification without images, and without the secret they are pulled by.
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

// essence is a template without what makes no other pod of it: by what secret an image is pulled, on which nodes one of several members may be, and the image of a container that becomes a program,
// of which the build counts.
func essence(f Facts, t *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	e := t.DeepCopy()
	e.Spec.ImagePullSecrets = nil
	if e.Annotations[AnnotationMembers] != "" {
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

// ImageOf is the image of a pod's containers, which all have the same.
func ImageOf(spec corev1.PodSpec) string {
	if len(spec.Containers) == 0 {
		return ""
	}
	return spec.Containers[0].Image
}
