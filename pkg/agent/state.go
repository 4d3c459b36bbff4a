package agent

import (
	"sync"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// nodeState is what CNI requests need of the node: set by its reconciler.
type nodeState struct {
	mu       sync.Mutex
	news     chan struct{} // closed when something may have become ready
	known    bool          // there is a NodeNetwork
	spec     networkv1alpha1.NodeNetworkSpec
	mtu      int
	datapath networkv1alpha1.DatapathType
}

func (s *nodeState) set(known bool, spec networkv1alpha1.NodeNetworkSpec, mtu int, datapath networkv1alpha1.DatapathType) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known, s.spec, s.mtu, s.datapath = known, spec, mtu, datapath
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

// isKnown reports whether the node has a NodeNetwork.
func (s *nodeState) isKnown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known
}
