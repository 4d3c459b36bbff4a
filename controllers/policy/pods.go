package policy

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/selection"
)

// world reads pods and namespaces.
type world struct{ client.Reader }

// pods lists the pods of a selector that have a port on its network or may get one.
func (w world) pods(ctx context.Context, selector facts.PodSelector) (names []types.NamespacedName, err error) {
	err = w.each(ctx, selector, func(pod *corev1.Pod, _ facts.SelectedPod) {
		names = append(names, client.ObjectKeyFromObject(pod))
	})
	return names, err
}

// read returns the numbers that the pods of a selector give to a named port.
func (w world) read(ctx context.Context, selector facts.PodSelector, port facts.NamedPort) (*selection.Port, error) {
	held := selection.NewPort(selector, port)
	err := w.each(ctx, selector, func(pod *corev1.Pod, selected facts.SelectedPod) {
		held.Hold(client.ObjectKeyFromObject(pod), facts.NumbersOf(selector, port, []facts.SelectedPod{selected}))
	})
	return held, err
}

// byLabel indexes pods by each of their labels, so that a selector does not read the labels of every pod.
const byLabel = "metadata.labels"

// indexByLabel is the function of the index byLabel.
func indexByLabel(o client.Object) (pairs []string) {
	pod, ok := o.(*corev1.Pod)
	if !ok || !facts.WantsPort(pod) {
		return nil
	}
	for key, value := range pod.Labels {
		pairs = append(pairs, selection.Pair(key, value))
	}
	return pairs
}

// each visits the pods of a selector. It lists only pods with the labels, because a list copies each pod.
func (w world) each(ctx context.Context, selector facts.PodSelector, visit func(*corev1.Pod, facts.SelectedPod)) error {
	namespaces, err := w.namespaces(ctx, selector)
	if err != nil {
		return err
	}
	for _, in := range listsOf(selector, namespaces) {
		var pods corev1.PodList
		options := []client.ListOption{in, client.MatchingLabelsSelector{Selector: selector.Pods}}
		if pair := selection.RequiredLabel(selector); pair != "" {
			options = append(options, client.MatchingFields{byLabel: pair})
		}
		if err := w.List(ctx, &pods, options...); err != nil {
			return err
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			if !facts.WantsPort(pod) || selector.Network != "" && pod.Annotations[networks.Annotation] == "" {
				continue
			}
			if selected := (facts.SelectedPod{Network: selector.Network, Namespace: pod.Namespace, Name: pod.Name,
				NamespaceLabels: namespaces[pod.Namespace], Labels: pod.Labels, Ports: facts.NamedPorts(pod)}); selector.Matches(selected) {
				visit(pod, selected)
			}
		}
	}
	return nil
}

// listsOf returns the namespaces whose pods must be listed. It is one list of all namespaces if the selector matches a
// namespace without labels, because a pod may be cached before its namespace.
func listsOf(selector facts.PodSelector, namespaces map[string]labels.Set) (lists []client.InNamespace) {
	if selector.Namespace != "" || selector.Namespaces.Matches(labels.Set{}) {
		return []client.InNamespace{client.InNamespace(selector.Namespace)}
	}
	for name, set := range namespaces {
		if selector.Namespaces.Matches(set) {
			lists = append(lists, client.InNamespace(name))
		}
	}
	return lists
}

// namespaces returns the labels of all namespaces, or nil for a selector of one namespace.
func (w world) namespaces(ctx context.Context, selector facts.PodSelector) (map[string]labels.Set, error) {
	if selector.Namespace != "" {
		return nil, nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := w.List(ctx, list); err != nil {
		return nil, err
	}
	found := make(map[string]labels.Set, len(list.Items))
	for i := range list.Items {
		found[list.Items[i].Name] = list.Items[i].Labels
	}
	return found, nil
}
