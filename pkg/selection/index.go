package selection

import (
	operators "k8s.io/apimachinery/pkg/selection"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/unit"
)

// index finds the selectors that may select a pod without scanning all selectors: by the namespace, and by one label
// that the pod must have.
type index map[shelf]map[unit.Key]struct{}

// shelf is the position of a selector in the index. namespace is empty for a selector of several namespaces. label is
// a required label "key=value", or empty.
type shelf struct{ namespace, label string }

func shelfOf(selector facts.PodSelector) shelf {
	return shelf{namespace: selector.Namespace, label: RequiredLabel(selector)}
}

// RequiredLabel returns a label, as Pair formats it, that every pod of a selector has. It is empty if the selector requires no
// label with a single value.
func RequiredLabel(selector facts.PodSelector) string {
	requirements, _ := selector.Pods.Requirements()
	for _, r := range requirements {
		switch r.Operator() {
		case operators.Equals, operators.DoubleEquals, operators.In:
			if values := r.ValuesUnsorted(); len(values) == 1 {
				return Pair(r.Key(), values[0])
			}
		}
	}
	return ""
}

// Pair formats a label as "key=value".
func Pair(key, value string) string { return key + "=" + value }

func (i index) add(key unit.Key, selector facts.PodSelector) {
	s := shelfOf(selector)
	if i[s] == nil {
		i[s] = map[unit.Key]struct{}{}
	}
	i[s][key] = struct{}{}
}

func (i index) remove(key unit.Key, selector facts.PodSelector) {
	s := shelfOf(selector)
	if delete(i[s], key); len(i[s]) == 0 {
		delete(i, s)
	}
}

// each calls visit for the selectors that may select a pod.
func (i index) each(pod facts.SelectedPod, visit func(unit.Key)) {
	for _, namespace := range []string{pod.Namespace, ""} {
		i.on(shelf{namespace: namespace}, visit)
		for key, value := range pod.Labels {
			i.on(shelf{namespace, Pair(key, value)}, visit)
		}
	}
}

func (i index) on(s shelf, visit func(unit.Key)) {
	for key := range i[s] {
		visit(key)
	}
}
