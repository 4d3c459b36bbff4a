package lint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/annotations"
	"github.com/weft-network/weft/pkg/manifest"
)

// Finding is a probable mistake.
type Finding struct {
	// Source is the file and the document.
	Source string `json:"source"`
	// Field is the path of the field in the object.
	Field string `json:"field"`
	// Message says what is wrong.
	Message string `json:"message"`
}

// String is the finding as one line.
func (f Finding) String() string { return fmt.Sprintf("%s: %s: %s", f.Source, f.Field, f.Message) }

// Cluster is what the manifests are checked against. The zero value is an empty cluster.
type Cluster struct {
	// Namespaces are the labels of namespaces, by name.
	Namespaces map[string]labels.Set
	Pods       []Pod
}

// Pod is a pod, or the template of pods.
type Pod struct {
	Namespace string
	Labels    labels.Set
	Ports     []corev1.ContainerPort
}

// Lint returns the findings about documents, in their order. namespace is that of objects that name none. Pods and
// namespaces in the documents count as if the cluster had them.
func Lint(documents []manifest.Document, cluster Cluster, namespace string) ([]Finding, error) {
	l := linter{Cluster: Cluster{Namespaces: map[string]labels.Set{}, Pods: slices.Clone(cluster.Pods)}}
	for name, set := range cluster.Namespaces {
		l.Namespaces[name] = set
	}
	for _, d := range documents {
		if err := l.learn(d, cmp.Or(d.Object.GetNamespace(), namespace)); err != nil {
			return nil, fmt.Errorf("%s: %w", d, err)
		}
	}
	for _, d := range documents {
		l.source, l.namespace = d.String(), cmp.Or(d.Object.GetNamespace(), namespace)
		if err := l.check(d.Object); err != nil {
			return nil, fmt.Errorf("%s: %w", d, err)
		}
	}
	return l.found, nil
}

// linter collects findings.
type linter struct {
	Cluster
	source, namespace string
	found             []Finding
}

func (l *linter) add(field, message string, args ...any) {
	l.found = append(l.found, Finding{l.source, field, fmt.Sprintf(message, args...)})
}

// templates are the places of pod templates in workloads. A Pod is its own template.
var templates = [][]string{{"spec", "template"}, {"spec", "jobTemplate", "spec", "template"}}

// learn adds the pods and the namespace of a document.
func (l *linter) learn(d manifest.Document, namespace string) error {
	switch d.Object.GetKind() {
	case "Namespace":
		set := labels.Set{corev1.LabelMetadataName: d.Object.GetName()}
		for key, value := range d.Object.GetLabels() {
			set[key] = value
		}
		l.Namespaces[d.Object.GetName()] = set
		return nil
	case "Pod":
		return l.learnPods(d.Object.Object, namespace)
	}
	for _, path := range templates {
		template, found, err := unstructured.NestedMap(d.Object.Object, path...)
		if err != nil || !found {
			continue
		}
		if _, found, err := unstructured.NestedSlice(template, "spec", "containers"); err == nil && found {
			return l.learnPods(template, namespace)
		}
	}
	return nil
}

func (l *linter) learnPods(template map[string]any, namespace string) error {
	var read corev1.PodTemplateSpec
	if err := convert(template, &read); err != nil {
		return err
	}
	l.Pods = append(l.Pods, PodOf(namespace, read.Labels, read.Spec))
	if _, ok := l.Namespaces[namespace]; !ok {
		l.Namespaces[namespace] = labels.Set{corev1.LabelMetadataName: namespace}
	}
	return nil
}

// PodOf returns a pod with the ports of its containers.
func PodOf(namespace string, of labels.Set, spec corev1.PodSpec) Pod {
	p := Pod{Namespace: namespace, Labels: of}
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		p.Ports = append(p.Ports, c.Ports...)
	}
	return p
}

// convert reads an object as a type. Fields that the type lacks are ignored.
func convert(from map[string]any, to any) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructured(from, to)
}

// annotations reports the annotations of an object, and of the pods of a workload, that Weft does not read.
func (l *linter) annotations(o *unstructured.Unstructured) {
	for _, f := range annotations.Of(o.GetKind(), o.GetAnnotations()) {
		l.add("metadata.annotations["+f.Key+"]", "%s", f.Message)
	}
	for _, path := range templates {
		at := append(slices.Clone(path), "metadata", "annotations")
		all, _, err := unstructured.NestedStringMap(o.Object, at...)
		if err != nil {
			continue // another kind's field
		}
		for _, f := range annotations.Of("Pod", all) {
			l.add(strings.Join(at, ".")+"["+f.Key+"]", "%s", f.Message)
		}
	}
}

// check finds the mistakes in one object.
func (l *linter) check(o *unstructured.Unstructured) error {
	l.annotations(o)
	switch o.GetKind() + "." + o.GroupVersionKind().Group {
	case "NetworkPolicy." + networkingv1.GroupName:
		var p networkingv1.NetworkPolicy
		err := convert(o.Object, &p)
		if err == nil {
			l.networkPolicy(&p)
		}
		return err
	case "Service.":
		var s corev1.Service
		err := convert(o.Object, &s)
		if err == nil {
			l.service(&s)
		}
		return err
	case "EgressFirewall." + networkv1alpha1.GroupVersion.Group:
		var f networkv1alpha1.EgressFirewall
		err := convert(o.Object, &f)
		if err == nil {
			l.egressFirewall(&f)
		}
		return err
	}
	return nil
}

// service checks the selector and the target ports of a service.
func (l *linter) service(s *corev1.Service) {
	if len(s.Spec.Selector) == 0 {
		return
	}
	pods := l.pods(l.namespace, labels.SelectorFromSet(s.Spec.Selector))
	if len(pods) == 0 {
		l.add("spec.selector", "no pod in namespace %s has the labels %s", l.namespace, labels.Set(s.Spec.Selector))
		return
	}
	for i, p := range s.Spec.Ports {
		target, protocol := p.TargetPort, cmp.Or(p.Protocol, corev1.ProtocolTCP)
		if target == (intstr.IntOrString{}) {
			target = intstr.FromInt32(p.Port)
		}
		l.port(fmt.Sprintf("spec.ports[%d].targetPort", i), target, protocol, pods)
	}
}

// port reports a port that no container of the pods has. The numbers of container ports are only informative, so a
// number is reported only if each of the pods lists its ports.
func (l *linter) port(field string, port intstr.IntOrString, protocol corev1.Protocol, pods []Pod) {
	listed := true
	for _, p := range pods {
		listed = listed && len(p.Ports) > 0
		for _, have := range p.Ports {
			named := port.Type == intstr.String && have.Name == port.StrVal
			numbered := port.Type == intstr.Int && have.ContainerPort == port.IntVal
			if (named || numbered) && cmp.Or(have.Protocol, corev1.ProtocolTCP) == protocol {
				return
			}
		}
	}
	if port.Type == intstr.String || listed {
		l.add(field, "no container of the %d selected pods has %s port %s", len(pods), protocol, port.String())
	}
}

// pods returns the pods of a namespace, or of all namespaces if it is empty, that a selector matches.
func (l *linter) pods(namespace string, selector labels.Selector) (found []Pod) {
	for _, p := range l.Pods {
		if (namespace == "" || p.Namespace == namespace) && selector.Matches(p.Labels) {
			found = append(found, p)
		}
	}
	return found
}

// selector reads a label selector. It reports a selector that cannot be read, and returns nil for it.
func (l *linter) selector(field string, s *metav1.LabelSelector) labels.Selector {
	read, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		l.add(field, "cannot be read: %v", err)
		return nil
	}
	return read
}
