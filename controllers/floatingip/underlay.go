package floatingip

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/controllers/kind"
	"github.com/weft-network/weft/pkg/addresses/floating"
	"github.com/weft-network/weft/pkg/facts"
)

// networkOf returns the Network of an Underlay pool. Without one the error is a *floating.RefusedError.
func (r *Pools) networkOf(ctx context.Context, name string) (facts.PodNetwork, error) {
	refused := func(format string, args ...any) (facts.PodNetwork, error) {
		return facts.PodNetwork{}, &floating.RefusedError{Reason: networkv1alpha1.ReasonRangeOutside, Message: fmt.Sprintf(format, args...)}
	}
	var n networkv1alpha1.Network
	err := r.Client.Get(ctx, types.NamespacedName{Name: name}, &n)
	switch {
	case apierrors.IsNotFound(err):
		return refused("there is no Network %s", name)
	case err != nil:
		return facts.PodNetwork{}, err
	case n.Spec.Topology == networkv1alpha1.TopologyLayer3:
		return refused("Network %s is of topology Layer3: its addresses follow the node", name)
	}
	read, err := facts.ParseNetwork(&n)
	if err != nil {
		return refused("Network %s: %v", name, err)
	}
	return read, nil
}

// reserved returns the addresses of a Network that no pod may have: the excluded ones, the addresses of all hosts, and on a
// segment of the data centre the addresses of nodes, of routers that nodes send to, of EgressIPs and of load balancers.
func (r *Pools) reserved(ctx context.Context, n facts.PodNetwork, pool floating.Pool) (taken []floating.Taken, err error) {
	if n.Topology == networkv1alpha1.TopologyLocalnet {
		if taken, err = r.hosts(ctx, pool); err != nil {
			return nil, err
		}
		translated, err := r.translated(ctx)
		if err != nil {
			return nil, err
		}
		taken = append(taken, translated...)
	}
	for _, excluded := range n.Exclude {
		taken = append(taken, floating.Taken{AddressRange: floating.Of(excluded), Of: "spec.excludeSubnets of Network " + n.Name})
	}
	for _, subnet := range n.Subnets {
		whole := floating.Of(subnet.CIDR)
		for _, a := range []netip.Addr{whole.First, whole.Last} {
			if facts.IsOfAll(subnet.CIDR, a) {
				taken = append(taken, takenBy(a, "all hosts of "+subnet.CIDR.Masked().String()))
			}
		}
	}
	return taken, nil
}

// translated returns the addresses that EgressIPs and the Services of LoadBalancerPools use on a segment. It leaves out addresses that a
// workload has, because an EgressIP does not get them.
func (r *Pools) translated(ctx context.Context) (taken []floating.Taken, err error) {
	translated, err := kind.TranslatedAddresses(ctx, r.Client)
	for _, t := range translated {
		if f := r.Floating.Book.Get(t.Address); f == nil || f.Spec.Holder == nil {
			taken = append(taken, takenBy(t.Address, t.Of))
		}
	}
	return taken, err
}

// describe explains in a pool's condition which addresses it skips.
func describe(pool floating.Pool, taken []floating.Taken) string {
	var texts []string
	for _, t := range taken {
		if len(pool.Skip([]floating.Taken{t})) > 0 {
			texts = append(texts, fmt.Sprintf("%s of %s", t.AddressRange, t.Of))
		}
	}
	slices.Sort(texts) // the condition must be the same each time
	if texts = slices.Compact(texts); len(texts) == 0 {
		return ""
	}
	return ", except " + strings.Join(texts, ", ")
}
