package policy

import (
	"context"
	"errors"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/selection"
	"github.com/weft-network/weft/pkg/unit"
)

// readPolicy reads a policy and the selectors that it uses. Invalid parts of the policy are not an error of the
// attempt.
func readPolicy[F any](ctx context.Context, r *Reconciler, key unit.Key, selectorsOf func(F) map[unit.Key]facts.PodSelector,
	parse func(facts.Numbers, facts.NodesOf) (F, error)) (read F, invalid, err error) {
	parseOnce := func() (held []*selection.Port) {
		numbers := func(pods facts.PodSelector, port facts.NamedPort) []uint16 {
			read, failed := world{r.Client}.read(ctx, pods, port)
			err = errors.Join(err, failed)
			held = append(held, read)
			return read.Numbers()
		}
		nodes := func(selector labels.Selector) []netip.Addr {
			var nodes corev1.NodeList
			err = errors.Join(err, r.Client.List(ctx, &nodes))
			return facts.AddressesOfNodes(selector, nodes.Items)
		}
		read, invalid = parse(numbers, nodes)
		r.Selectors.Read(key, held)
		return held
	}
	if held := parseOnce(); len(held) > 0 && err == nil {
		parseOnce() // a pod that appeared between the two reads enqueued no policy
	}
	if err != nil {
		return read, invalid, err
	}
	return read, invalid, r.Selectors.Use(ctx, key, selectorsOf(read), world{r.Client}.pods)
}
