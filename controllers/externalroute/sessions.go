package externalroute

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
)

// downHop is a router whose BFD sessions are down on nodes, of the number of nodes that watch it.
type downHop struct {
	address networkv1alpha1.IP
	nodes   []string
	watch   int
}

type downHops []downHop

// down returns the watched routers whose BFD sessions are down, sorted by address. A session that starts is judged after again.
// Without a status, northd has not seen the session yet; it is administratively down until a route uses it.
func (r *Reconciler) down(e *networkv1alpha1.ExternalRoute, hops []networkv1alpha1.ExternalNextHop) (found downHops, again time.Duration) {
	sessions := r.Database.Watched()
	r.forget(sessions)
	for _, hop := range hops {
		if !hop.BFD {
			continue
		}
		wasDown := slices.ContainsFunc(e.Status.Down, func(d networkv1alpha1.DownNextHop) bool { return d.Address == hop.Address })
		one := downHop{address: hop.Address}
		for _, s := range sessions {
			node := names.NodeOutside(s.LogicalPort)
			if s.DstIP != string(hop.Address) || r.Reachable != nil && !r.Reachable(node) {
				continue
			}
			one.watch++
			if !isDown(s) {
				continue
			}
			if left := r.starts(s.UUID); left > 0 && !wasDown {
				again = max(again, left)
				continue
			}
			one.nodes = append(one.nodes, node)
		}
		if len(one.nodes) > 0 {
			slices.Sort(one.nodes)
			found = append(found, one)
		}
	}
	return found, again
}

func isDown(s *nbdb.BFD) bool {
	return s.Status != nil && (*s.Status == nbdb.BFDStatusDown || *s.Status == nbdb.BFDStatusInit)
}

// starts returns how long a session that is down may still start.
func (r *Reconciler) starts(session string) time.Duration {
	if r.starting == nil {
		r.starting = map[string]time.Time{}
	}
	if _, has := r.starting[session]; !has {
		r.starting[session] = r.Now()
	}
	return r.starting[session].Add(sessionStart).Sub(r.Now())
}

// forget forgets the sessions that are not down any more.
func (r *Reconciler) forget(sessions []*nbdb.BFD) {
	down := map[string]bool{}
	for _, s := range sessions {
		down[s.UUID] = isDown(s)
	}
	maps.DeleteFunc(r.starting, func(session string, _ time.Time) bool { return !down[session] })
}

// status returns the routers as the status has them.
func (d downHops) status() (found []networkv1alpha1.DownNextHop) {
	for _, hop := range d {
		found = append(found, networkv1alpha1.DownNextHop{Address: hop.address, Nodes: int32(len(hop.nodes))})
	}
	return found
}

// err names the routers and the nodes that they do not answer; nil without a router.
func (d downHops) err() (all error) {
	const named = 5
	for _, hop := range d {
		nodes := strings.Join(hop.nodes[:min(len(hop.nodes), named)], ", ")
		if more := len(hop.nodes) - named; more > 0 {
			nodes = fmt.Sprintf("%s and %d more", nodes, more)
		}
		all = errors.Join(all, fmt.Errorf("next hop %s is down: it answers no BFD of %s", hop.address, nodes))
	}
	return all
}

// everywhere counts the routers that answer none of the nodes that watch them.
func (d downHops) everywhere() (n int) {
	for _, hop := range d {
		if len(hop.nodes) == hop.watch {
			n++
		}
	}
	return n
}
