package policy

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
)

// facts are what the ACLs of a policy need to know.
type facts interface {
	Selectors() map[unit.Key]topology.PodSelector
}

// readPolicy reads a policy, and says what it uses. What is invalid in it is no error of the attempt.
func readPolicy[F facts](ctx context.Context, r *Reconciler, key unit.Key, parse func(topology.Numbers, topology.NodesOf) (F, error)) (read F, invalid, err error) {
	look := func() (held []*heldPort) {
		numbers := func(pods topology.PodSelector, port topology.NamedPort) []uint16 {
			read, failed := world{r.Client}.read(ctx, pods, port)
			err = errors.Join(err, failed)
			held = append(held, read)
			return slices.Sorted(maps.Keys(read.counts))
		}
		nodes := func(selector labels.Selector) []netip.Addr {
			var nodes corev1.NodeList
			err = errors.Join(err, r.Client.List(ctx, &nodes, client.UnsafeDisableDeepCopy))
			return topology.AddressesOfNodes(selector, nodes.Items)
		}
		read, invalid = parse(numbers, nodes)
		r.Selectors.Read(key, held)
		return held
	}
	if held := look(); len(held) > 0 && err == nil {
		look() // a pod that came between the two was asked by nobody
	}
	if err != nil {
		return read, invalid, err
	}
	return read, invalid, r.Selectors.Use(ctx, key, read.Selectors(), world{r.Client}.pods)
}
