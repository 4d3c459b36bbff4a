// Package lbpool decides which Service of type LoadBalancer has which address of a LoadBalancerPool, and which
// node answers for it. It is pure: it reads no cache and writes nothing.
package lbpool

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Pool is a LoadBalancerPool whose fields have been parsed.
type Pool struct {
	Name   string
	Ranges []networkv1alpha1.AddressRange
	// Class is the class of the Services that the pool serves. WithoutClass adds the Services without a class.
	Class        string
	WithoutClass bool
	// AutoAssign lets Services get addresses that they do not request.
	AutoAssign bool

	Services, Namespaces, Nodes labels.Selector
	// FormerNodes is the last selector of nodes that selected one.
	FormerNodes labels.Selector
	// OnSegment means that one node answers ARP and neighbour discovery for each address.
	OnSegment bool
	// InUse are the addresses that Services have of the pool, sorted. They keep them although the pool may not give them any more. It is
	// empty if the loss of the pool is confirmed.
	InUse []netip.Addr
	// Refused is the reason why the pool gives no new addresses. It is empty for a pool in force.
	Refused string
	// Waits reports whether a node must probe an address before a Service gets it. If it is nil, none must.
	Waits func(netip.Addr) bool
}

// waits reports whether a Service must wait for an address.
func (p Pool) waits(a netip.Addr) bool { return p.OnSegment && p.Waits != nil && p.Waits(a) }

// ParsePool reads a LoadBalancerPool. The error names the first wrong field. The pool then has everything else, because
// Services keep the addresses that they have.
func ParsePool(p *networkv1alpha1.LoadBalancerPool) (pool Pool, err error) {
	spec := p.Spec
	pool = Pool{Name: p.Name, WithoutClass: spec.ServicesWithoutClass, AutoAssign: spec.AutoAssign == nil || *spec.AutoAssign,
		OnSegment: spec.AnnounceOnSegment == nil || *spec.AnnounceOnSegment,
		Class:     cmp.Or(spec.LoadBalancerClass, networkv1alpha1.DefaultLoadBalancerClass),
		Services:  labels.Nothing(), Namespaces: labels.Nothing(), Nodes: labels.Nothing(), FormerNodes: labels.Nothing()}
	if !networkv1alpha1.LossConfirmed(p) {
		for _, text := range p.Status.InUse {
			if a, wrong := text.Addr(); wrong == nil { // only the operator writes the status
				pool.InUse = append(pool.InUse, a)
			}
		}
		slices.SortFunc(pool.InUse, netip.Addr.Compare)
	}
	for i, text := range spec.Addresses {
		r, wrong := networkv1alpha1.ParseAddressRange(string(text))
		if wrong == nil {
			wrong = pool.apart(r)
		}
		if wrong == nil {
			pool.Ranges = append(pool.Ranges, r)
		} else if err == nil {
			err = fmt.Errorf("spec.addresses[%d]: %w", i, wrong)
		}
	}
	for _, selector := range []struct {
		field string
		from  *metav1.LabelSelector
		to    *labels.Selector
	}{{"serviceSelector", spec.ServiceSelector, &pool.Services}, {"namespaceSelector", spec.NamespaceSelector, &pool.Namespaces},
		{"nodeSelector", spec.NodeSelector, &pool.Nodes}} {
		if wrong := parseSelector(selector.from, selector.to); wrong != nil && err == nil {
			err = fmt.Errorf("spec.%s: %w", selector.field, wrong)
		}
	}
	if p.Status.NodeSelector != nil {
		_ = parseSelector(p.Status.NodeSelector, &pool.FormerNodes) // only the operator writes the status
	}
	return pool, err
}

// KeepNodes makes the pool go on with its former selector of nodes if its own selects no node and the former one does. It reports
// which of them selects a node.
func (p *Pool) KeepNodes(nodes []corev1.Node) (own, former bool) {
	selects := func(s labels.Selector) bool {
		for i := range nodes { // Nodes are large
			if s.Matches(labels.Set(nodes[i].Labels)) {
				return true
			}
		}
		return false
	}
	if own = selects(p.Nodes); !own && selects(p.FormerNodes) {
		p.Nodes, former = p.FormerNodes, true
	}
	return own, former
}

// apart returns an error if a range overlaps one of the pool.
func (p Pool) apart(r networkv1alpha1.AddressRange) error {
	for _, earlier := range p.Ranges {
		if earlier.Overlaps(r) {
			return fmt.Errorf("%s overlaps the earlier %s", r, earlier)
		}
	}
	return nil
}

// parseSelector reads a selector. An omitted selector selects everything.
func parseSelector(from *metav1.LabelSelector, to *labels.Selector) (err error) {
	if from == nil {
		*to = labels.Everything()
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(from)
	if err == nil {
		*to = selector
	}
	return err
}

// Contains reports whether an address belongs to the pool.
func (p Pool) Contains(a netip.Addr) bool {
	return slices.ContainsFunc(p.Ranges, func(r networkv1alpha1.AddressRange) bool { return r.Contains(a) })
}

// Gave reports whether a Service has an address of the pool, which the pool may not give any more.
func (p Pool) Gave(a netip.Addr) bool {
	_, found := slices.BinarySearchFunc(p.InUse, a, netip.Addr.Compare)
	return found
}

// Serves reports whether the pool serves a Service.
func (p Pool) Serves(r Request) bool {
	return (r.Class == p.Class || r.Class == "" && p.WithoutClass) && p.Services.Matches(r.Labels) && p.Namespaces.Matches(r.NamespaceLabels)
}

// Total counts the addresses of the pool, at most math.MaxInt64.
func (p Pool) Total() (total int64) {
	for _, r := range p.Ranges {
		first, last := new(big.Int).SetBytes(r.First.AsSlice()), new(big.Int).SetBytes(r.Last.AsSlice())
		size := last.Sub(last, first).Add(last, big.NewInt(1))
		if !size.IsInt64() || size.Int64() > math.MaxInt64-total {
			return math.MaxInt64
		}
		total += size.Int64()
	}
	return total
}

// Taken is a range of addresses that something else has.
type Taken struct {
	networkv1alpha1.AddressRange
	// Of names it: "IPPool web", "node n1".
	Of string
}

// One returns the range of a single address.
func One(a netip.Addr, of string) Taken {
	return Taken{networkv1alpha1.AddressRange{First: a, Last: a}, of}
}

// Overlap returns why a pool is refused: one of its ranges has an address that something else has. It is empty without
// an overlap.
func (p Pool) Overlap(taken []Taken) string {
	for _, r := range p.Ranges {
		for _, t := range taken {
			if t.Overlaps(r) {
				return fmt.Sprintf("range %s of LoadBalancerPool %s overlaps %s of %s", r, p.Name, t.AddressRange, t.Of)
			}
		}
	}
	return ""
}

// Precedes reports whether a pool was created before another. Names decide between two of the same second.
func Precedes(a, b *networkv1alpha1.LoadBalancerPool) bool {
	if x, y := a.CreationTimestamp.Time, b.CreationTimestamp.Time; !x.Equal(y) {
		return x.Before(y)
	}
	return a.Name < b.Name
}
