package pod

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/topology"
)

// state is what the reconciler remembers besides the addresses in use, which alloc.Allocator has. The zero value is empty.
type state struct {
	// waiters are the pods without an address that they need.
	waiters kind.Waiters

	mu sync.Mutex
	// owners are the owners in the allocator of a pod, and of earlier pods of its name that still have an address or a port.
	owners map[types.NamespacedName]map[alloc.Owner]struct{}
	// stored are the ports that the database had at the start, of pods for which no unit was applied since.
	stored map[alloc.Owner]topology.PortAssignment
	// chassis is that of each node in the last unit of a pod on it.
	chassis map[string]string
	// lacking maps the pods that find no address in the subnets of their node to the node, and lacks counts them. A woken pod stays until it
	// has an address, so that the record does not change while waiting pods take turns.
	lacking map[types.NamespacedName]string
	lacks   map[string]int
	// missed are the namespaces that were not cached when a pod was reconciled.
	missed map[string]struct{}
	// egress means that there were EgressIPs or ExternalRoutes, and routes that there were ExternalRoutes.
	egress, routes bool
}

// add records an owner of a pod's name.
func (s *state) add(owner alloc.Owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owners == nil {
		s.owners = map[types.NamespacedName]map[alloc.Owner]struct{}{}
	}
	pod := owner.Pod()
	if s.owners[pod] == nil {
		s.owners[pod] = map[alloc.Owner]struct{}{}
	}
	s.owners[pod][owner] = struct{}{}
}

// hasOthers reports whether another pod of an owner's name still has an address or a port.
func (s *state) hasOthers(owner alloc.Owner) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	others := s.owners[owner.Pod()]
	_, has := others[owner]
	return len(others) > 1 || len(others) == 1 && !has
}

// take removes and returns the owners of a pod's name, except keep.
func (s *state) take(pod types.NamespacedName, keep alloc.Owner) (taken []alloc.Owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for owner := range s.owners[pod] {
		if owner != keep {
			taken = append(taken, owner)
			delete(s.owners[pod], owner)
		}
	}
	if len(s.owners[pod]) == 0 {
		delete(s.owners, pod)
	}
	return taken
}

// pods lists the pods, also earlier ones, that have owners.
func (s *state) pods() (pods []types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for pod := range s.owners {
		pods = append(pods, pod)
	}
	return pods
}

// store records the port that the database has of an owner.
func (s *state) store(owner alloc.Owner, port topology.PortAssignment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stored == nil {
		s.stored = map[alloc.Owner]topology.PortAssignment{}
	}
	s.stored[owner] = port
}

// unstore records that an owner has no such port, or another one now.
func (s *state) unstore(owner alloc.Owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.stored, owner)
}

// made records that a unit was applied for a pod on a node with a chassis.
func (s *state) made(owner alloc.Owner, node, chassis string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.stored, owner)
	if s.chassis == nil {
		s.chassis = map[string]string{}
	}
	s.chassis[node] = chassis
}

// last returns the port that an owner has in the database, if no unit was applied for it since the start, and the chassis of the last
// unit on a node.
func (s *state) last(owner alloc.Owner, node string) (port *topology.PortAssignment, chassis string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stored, ok := s.stored[owner]; ok {
		port = &stored
	}
	return port, s.chassis[node]
}

// setLacking records the node on which a pod finds no address; "" means that the pod lacks none. It returns the nodes that got
// their first such pod, or lost their last.
func (s *state) setLacking(pod types.NamespacedName, node string) (changed []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.lacking[pod]
	if before == node {
		return nil
	}
	if s.lacking == nil {
		s.lacking, s.lacks = map[types.NamespacedName]string{}, map[string]int{}
	}
	delete(s.lacking, pod)
	if before != "" {
		if s.lacks[before]--; s.lacks[before] == 0 {
			delete(s.lacks, before)
			changed = append(changed, before)
		}
	}
	if node != "" {
		s.lacking[pod] = node
		if s.lacks[node]++; s.lacks[node] == 1 {
			changed = append(changed, node)
		}
	}
	return changed
}

// isLacking reports whether a pod lacks an address.
func (s *state) isLacking(pod types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lacking[pod] != ""
}

// lackOn reports whether pods of a node lack an address.
func (s *state) lackOn(node string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lacks[node] > 0
}

// miss records that a pod's namespace is not cached.
func (s *state) miss(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.missed == nil {
		s.missed = map[string]struct{}{}
	}
	s.missed[namespace] = struct{}{}
}

// misses reports whether a namespace was missed, and forgets it.
func (s *state) misses(namespace string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, missed := s.missed[namespace]
	delete(s.missed, namespace)
	return missed
}

// see records that there are EgressIPs or ExternalRoutes.
func (s *state) see(egress, routes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.egress, s.routes = s.egress || egress || routes, s.routes || routes
}

// seen reports what see recorded.
func (s *state) seen() (egress, routes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.egress, s.routes
}

// copyTo makes to, which nobody uses yet, a copy. The addresses must be copied afterwards, so that the copy has every address in the
// state.
func (s *state) copyTo(to *state) {
	s.waiters.CopyTo(&to.waiters)
	s.mu.Lock()
	defer s.mu.Unlock()
	to.owners = make(map[types.NamespacedName]map[alloc.Owner]struct{}, len(s.owners))
	for pod, owners := range s.owners {
		to.owners[pod] = maps.Clone(owners)
	}
	to.stored, to.chassis, to.missed = maps.Clone(s.stored), maps.Clone(s.chassis), maps.Clone(s.missed)
	to.lacking, to.lacks, to.egress, to.routes = maps.Clone(s.lacking), maps.Clone(s.lacks), s.egress, s.routes
}
