package galaxy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"go4.org/netipx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
)

// SubnetLabel selects nodes of a node subnet of Galaxy that has no node yet. Its value is the subnet, "10.0.0.0-16".
const SubnetLabel = networkv1alpha1.GroupName + "/galaxy-node-subnet"

// Cluster is what the cluster has of the objects that Galaxy names.
type Cluster struct {
	Nodes []corev1.Node
	// Workloads has the UID of each workload that exists, Pods each pod that exists and has not ended.
	Workloads map[floating.Workload]types.UID
	Pods      map[types.NamespacedName]*corev1.Pod
}

// Target is where the addresses live with Weft.
type Target struct {
	Location networkv1alpha1.IPPoolLocation
	// Network is the Network of an Underlay pool.
	Network string
	// Now is the time since when a holder has its address, if Galaxy does not have one.
	Now time.Time
}

// Result is what to create.
type Result struct {
	Pools       []networkv1alpha1.IPPool
	FloatingIPs []networkv1alpha1.FloatingIP
	// Notes name what has no counterpart, or needs a hand.
	Notes []string
}

// Workloads returns the workloads and pods that a Cluster should have.
func (s Source) Workloads() (workloads []floating.Workload, pods []types.NamespacedName) {
	for _, a := range s.ips {
		if a.workload.Kind == "" {
			continue
		}
		workloads = append(workloads, a.workload)
		if a.pod != "" {
			pods = append(pods, types.NamespacedName{Namespace: a.workload.Namespace, Name: a.pod})
		}
	}
	return workloads, pods
}

// conversion is a conversion on its way.
type conversion struct {
	Source
	cluster Cluster
	target  Target
	Result
	// pools has the pool of each address of a FloatingIP or of a preallocated one.
	pools map[netip.Addr]string
	// index counts the addresses of each key.
	index map[string]int32
}

// Convert returns the IPPools and FloatingIPs that stand for what Galaxy has.
func Convert(s Source, cluster Cluster, target Target) (Result, error) {
	c := &conversion{Source: s, cluster: cluster, target: target, pools: map[netip.Addr]string{}, index: map[string]int32{}}
	c.Notes = slices.Clone(s.notes)
	c.assignPools()
	if err := c.makePools(); err != nil {
		return c.Result, err
	}
	for _, a := range c.ips {
		if _, inside := c.pools[a.address]; inside {
			c.convert(a)
		}
	}
	return c.Result, nil
}

func (c *conversion) note(format string, args ...any) {
	c.Notes = append(c.Notes, fmt.Sprintf(format, args...))
}

// assignPools decides of which IPPool each address is. Galaxy's pools have no ranges: a pool gets the addresses that it
// has, and further ones up to its size.
func (c *conversion) assignPools() {
	has := map[string]int{}
	for _, a := range c.ips {
		if !slices.ContainsFunc(c.segments, func(s segment) bool { return s.contains(a.address) }) {
			c.note("FloatingIP %s is in none of the ranges of ConfigMap %s: not imported", a.address, ConfigMapName)
			continue
		}
		pool := c.poolOf(a)
		c.pools[a.address] = pool
		has[pool]++
	}
	for _, name := range sortedKeys(c.sizes) {
		if missing := c.sizes[name] - has[name]; missing > 0 && isPoolName(name) {
			if got := c.preallocate(name, missing); got < missing {
				c.note("Pool %s: its size is %d, but only %d addresses are left for it", name, c.sizes[name], has[name]+got)
			}
		}
	}
}

// poolOf returns the IPPool of an address.
func (c *conversion) poolOf(a address) string {
	switch {
	case a.pool == "" || a.reserved:
		return networkv1alpha1.GalaxyPool
	case !isPoolName(a.pool):
		c.note("FloatingIP %s: pool %q cannot be the name of an IPPool: it is in IPPool %s",
			a.address, a.pool, networkv1alpha1.GalaxyPool)
		return networkv1alpha1.GalaxyPool
	}
	return a.pool
}

// isPoolName reports whether Weft can have an IPPool of the name.
func isPoolName(name string) bool {
	return len(name) <= validation.LabelValueMaxLength && len(validation.IsDNS1123Subdomain(name)) == 0
}

// preallocate assigns free addresses to a pool, and returns how many.
func (c *conversion) preallocate(pool string, missing int) (got int) {
	for _, s := range c.segments {
		for _, r := range s.ranges {
			for a := r.First; got < missing && r.Contains(a); a = a.Next() {
				if _, taken := c.pools[a]; !taken {
					c.pools[a] = pool
					got++
				}
			}
		}
	}
	return got
}

func (s segment) contains(a netip.Addr) bool {
	return slices.ContainsFunc(s.ranges, func(r networkv1alpha1.AddressRange) bool { return r.Contains(a) })
}

// maxRanges is how many ranges an IPPool can have, maxSize its largest spec.size.
const (
	maxRanges = 64
	maxSize   = 4096
)

// makePools makes the IPPools: one for each of Galaxy's pools, and IPPool galaxy with all other addresses.
func (c *conversion) makePools() error {
	names := map[string]bool{networkv1alpha1.GalaxyPool: true}
	for _, pool := range c.pools {
		names[pool] = true
	}
	made := map[string]*networkv1alpha1.IPPool{}
	for i, s := range c.segments {
		selector := c.selectorOf(s)
		c.noteNetwork(s)
		for _, name := range sortedKeys(names) {
			ranges, err := c.rangesIn(s, name)
			if err != nil {
				return fmt.Errorf("ConfigMap %s: data.%s[%d]: %w", ConfigMapName, ConfigMapKey, i, err)
			}
			if len(ranges) > 0 && made[name] == nil {
				made[name] = c.newPool(name)
			}
			for _, r := range ranges {
				made[name].Spec.Ranges = append(made[name].Spec.Ranges,
					networkv1alpha1.IPPoolRange{Addresses: r.String(), NodeSelector: selector})
			}
		}
	}
	for _, name := range sortedKeys(made) {
		if n := len(made[name].Spec.Ranges); n > maxRanges {
			return fmt.Errorf("IPPool %s would have %d ranges, at most %d are possible: let neighbouring addresses be of one pool",
				name, n, maxRanges)
		}
		c.Pools = append(c.Pools, *made[name])
	}
	return nil
}

func (c *conversion) newPool(name string) *networkv1alpha1.IPPool {
	p := &networkv1alpha1.IPPool{TypeMeta: metav1.TypeMeta{APIVersion: networkv1alpha1.GroupVersion.String(), Kind: "IPPool"},
		ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.Location, p.Spec.Network, p.Spec.Namespaces = c.target.Location, c.target.Network, &metav1.LabelSelector{}
	if p.Spec.Size = int32(min(c.sizes[name], maxSize)); c.sizes[name] > maxSize {
		c.note("Pool %s: spec.size is at most %d, not %d", name, maxSize, c.sizes[name])
	}
	return p
}

// rangesIn returns the ranges of a segment that are of a pool.
func (c *conversion) rangesIn(s segment, pool string) (ranges []networkv1alpha1.AddressRange, err error) {
	var set netipx.IPSetBuilder
	if pool == networkv1alpha1.GalaxyPool {
		for _, r := range s.ranges {
			set.AddRange(netipx.IPRangeFrom(r.First, r.Last))
		}
	}
	for a, of := range c.pools {
		switch {
		case !s.contains(a):
		case of == pool:
			set.Add(a)
		default:
			set.Remove(a)
		}
	}
	all, err := set.IPSet()
	if err != nil {
		return nil, err
	}
	for _, r := range all.Ranges() {
		ranges = append(ranges, networkv1alpha1.AddressRange{First: r.From(), Last: r.To()})
	}
	return ranges, nil
}

// selectorOf selects the nodes in the node subnets of a segment; nil if these are all nodes.
func (c *conversion) selectorOf(s segment) *metav1.LabelSelector {
	var inside []string
	for i := range c.cluster.Nodes {
		if node := &c.cluster.Nodes[i]; s.carries(node) {
			name := node.Labels[corev1.LabelHostname]
			if name == "" {
				name = node.Name
				c.note("node %s has no label %s: IPPools do not select it", node.Name, corev1.LabelHostname)
			}
			inside = append(inside, name)
		}
	}
	switch {
	case len(inside) == 0 && len(s.nodes) > 0:
		value := strings.NewReplacer("/", "-", ":", ".").Replace(s.nodes[0].String())
		c.note("no node is in the node subnets %v of %v: label the nodes that can carry these addresses %s=%s",
			s.nodes, s.ranges, SubnetLabel, value)
		return &metav1.LabelSelector{MatchLabels: map[string]string{SubnetLabel: value}}
	case len(inside) == len(c.cluster.Nodes):
		return nil
	}
	slices.Sort(inside)
	c.note("the node subnets %v of %v are the nodes %v: give new nodes there a label, and select it instead", s.nodes, s.ranges, inside)
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: corev1.LabelHostname, Operator: metav1.LabelSelectorOpIn, Values: inside}}}
}

// carries reports whether the internal address of a node is in the node subnets.
func (s segment) carries(node *corev1.Node) bool {
	for _, a := range node.Status.Addresses {
		ip, err := netip.ParseAddr(a.Address)
		if err != nil || a.Type != corev1.NodeInternalIP {
			continue
		}
		if slices.ContainsFunc(s.nodes, func(p netip.Prefix) bool { return p.Contains(ip) }) {
			return true
		}
	}
	return false
}

// noteNetwork names what belongs to a Network of Weft, not to an IPPool.
func (c *conversion) noteNetwork(s segment) {
	segment := fmt.Sprintf("subnet %s, gateway %s and VLAN %d of %v", s.subnet, s.gateway, s.vlan, s.ranges)
	if c.target.Location == networkv1alpha1.LocationUnderlay {
		c.note("%s have no field in an IPPool: Network %s must have them", segment, c.target.Network)
		return
	}
	c.note("%s have no counterpart for an IPPool with location %s", segment, c.target.Location)
}

func sortedKeys[V any](of map[string]V) (keys []string) {
	for key := range of {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
