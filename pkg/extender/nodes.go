package extender

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/weft-network/weft/pkg/floating"
)

// nodes has the labels of all nodes. The zero value is empty.
type nodes struct {
	mu     sync.RWMutex
	labels map[string]labels.Set
}

func (n *nodes) get(name string) (labels.Set, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	found, ok := n.labels[name]
	return found, ok
}

// set records a node's labels. It reports whether they differ from the recorded ones.
func (n *nodes) set(name string, to labels.Set) (changed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if had, ok := n.labels[name]; ok && maps.Equal(had, to) {
		return false
	}
	if n.labels == nil {
		n.labels = map[string]labels.Set{}
	}
	n.labels[name] = to
	return true
}

func (n *nodes) remove(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.labels, name)
}

// classes returns a node of each class of a survey, without a name.
func (n *nodes) classes(s *survey) (classes []floating.Node) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	seen := map[string]bool{}
	for _, set := range n.labels {
		node := floating.Node{Labels: set}
		if class := s.class(node); !seen[class] {
			seen[class] = true
			classes = append(classes, node)
		}
	}
	return classes
}
