package attach

import (
	"cmp"
	"sync"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// State is the node's state that CNI requests need. The node's reconciler sets it. The zero value is a node without a
// NodeNetwork.
type State struct {
	mu       sync.Mutex
	changed  chan struct{} // closed when something may have become ready
	present  bool          // the NodeNetwork exists
	spec     networkv1alpha1.NodeNetworkSpec
	mtu      int
	datapath networkv1alpha1.DatapathType
}

// Set replaces the state. present reports whether the NodeNetwork exists.
func (s *State) Set(present bool, spec networkv1alpha1.NodeNetworkSpec, mtu int, datapath networkv1alpha1.DatapathType) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.present, s.spec, s.mtu, s.datapath = present, spec, mtu, datapath
}

// Notify wakes the requests that wait for the node.
func (s *State) Notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// next returns a channel that is closed at the next Notify.
func (s *State) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// forPods returns the node's subnets, the MTU of pod interfaces in bytes, and the datapath.
func (s *State) forPods() (networkv1alpha1.NodeNetworkSpec, int, networkv1alpha1.DatapathType) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spec, s.mtu, s.datapath
}

// MTU returns the MTU of the pods' interfaces on the cluster network, in bytes; 0 while it is not known.
func (s *State) MTU() int {
	_, mtu, _ := s.forPods()
	return mtu
}

// HostPortRange returns the ports from which pods get random host ports.
func (s *State) HostPortRange() networkv1alpha1.PortRange {
	spec, _, _ := s.forPods()
	return cmp.Or(spec.HostPorts.Range, networkv1alpha1.DefaultHostPortRange)
}

// hasNodeNetwork reports whether the node has a NodeNetwork.
func (s *State) hasNodeNetwork() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.present
}
