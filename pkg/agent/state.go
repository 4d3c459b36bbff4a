package agent

import (
	"sync"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// nodeState is what CNI requests need of the node: set by its reconciler.
type nodeState struct {
	mu       sync.Mutex
	news     chan struct{} // closed when something may have become ready
	spec     networkv1alpha1.NodeNetworkSpec
	mtu      int
	datapath networkv1alpha1.DatapathType
}

func (s *nodeState) set(spec networkv1alpha1.NodeNetworkSpec, mtu int, datapath networkv1alpha1.DatapathType) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spec, s.mtu, s.datapath = spec, mtu, datapath
}

// told lets requests that wait for the node look again.
func (s *nodeState) told() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.news != nil {
		close(s.news)
		s.news = nil
	}
}

// next is closed at the next told.
func (s *nodeState) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.news == nil {
		s.news = make(chan struct{})
	}
	return s.news
}

// forPods returns the node's subnets, the MTU of pod interfaces in bytes, and the datapath.
func (s *nodeState) forPods() (networkv1alpha1.NodeNetworkSpec, int, networkv1alpha1.DatapathType) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spec, s.mtu, s.datapath
}

func (s *nodeState) hasSubnets() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.spec.PodSubnets) > 0
}
