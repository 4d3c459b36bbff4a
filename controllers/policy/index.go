package policy

import (
	"k8s.io/apimachinery/pkg/selection"

	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// index finds the selectors that may select a pod, without looking at the others: by the namespace, and by one label that the pod must have.
type index map[shelf]map[unit.Key]struct{}

// shelf is where a selector is: its namespace, empty for several, and a pair "key=value" that it asks for, empty for none.
type shelf struct{ namespace, label string }

func shelfOf(selector topology.PodSelector) shelf {
	s := shelf{namespace: selector.Namespace}
	requirements, _ := selector.Pods.Requirements()
	for _, r := range requirements {
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			if values := r.ValuesUnsorted(); len(values) == 1 {
				s.label = pair(r.Key(), values[0])
				return s
			}
		}
	}
	return s
}

func pair(key, value string) string { return key + "=" + value }

func (i index) add(key unit.Key, selector topology.PodSelector) {
	s := shelfOf(selector)
	if i[s] == nil {
		i[s] = map[unit.Key]struct{}{}
	}
	i[s][key] = struct{}{}
}

func (i index) remove(key unit.Key, selector topology.PodSelector) {
	s := shelfOf(selector)
	if delete(i[s], key); len(i[s]) == 0 {
		delete(i, s)
	}
}

// each visits the selectors that may select a pod.
func (i index) each(pod topology.SelectedPod, visit func(unit.Key)) {
	for _, namespace := range []string{pod.Namespace, ""} {
		i.on(shelf{namespace: namespace}, visit)
		for key, value := range pod.Labels {
			i.on(shelf{namespace, pair(key, value)}, visit)
		}
	}
}

func (i index) on(s shelf, visit func(unit.Key)) {
	for key := range i[s] {
		visit(key)
	}
}
