package extender

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/weft-network/weft/pkg/addresses/floating"
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

// all iterates over the nodes. They must not be changed.
func (n *nodes) all(yield func(floating.Node) bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for name, set := range n.labels {
		if !yield(floating.Node{Name: name, Labels: set}) {
			return
		}
	}
}
