package floating

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Asker is a pod that requests addresses.
type Asker struct {
	Namespace, Name string
	UID             types.UID
	Workload        Workload
	// WorkloadUID is the UID of the workload.
	WorkloadUID types.UID
	Request     networkv1alpha1.FloatingRequest
	// Has are the addresses at the pod's port. A running pod whose FloatingIP lost its holder gets them again, if
	// nobody else has them.
	Has []netip.Addr
	// NamespaceLabels are those of the pod's namespace.
	NamespaceLabels labels.Set
	// Limited says that the workload gets no more than Limit addresses of a pool for each index and family: it has a
	// pod more during a rolling update, which waits for one that is replaced.
	Limited bool
	Limit   int
}

// Node is where a pod is or may be scheduled.
type Node struct {
	// Name is empty when only the labels matter, as for a class of nodes.
	Name   string
	Labels labels.Set
}

// name returns the node as in messages. Without a name the node stands for all with its labels.
func (n Node) name() string { return cmp.Or(n.Name, "this node") }

// Choice is an address for a pod.
type Choice struct {
	Address netip.Addr
	Index   int32
	// Had is the address' FloatingIP as it is; nil: it does not exist yet. It must not be changed.
	Had *networkv1alpha1.FloatingIP
}

// IsHeld reports whether the pod has the address already.
func (c Choice) IsHeld(pod types.UID) bool {
	return c.Had != nil && c.Had.Spec.Holder != nil && c.Had.Spec.Holder.PodUID == pod
}

// UnavailableError explains why a pod gets no address.
type UnavailableError struct {
	Pool string
	// Reason is what is missing. Elsewhere reports that another node could carry an address.
	Reason    string
	Elsewhere bool
	// For is the pod that must end first, or "".
	For string
}

func (e *UnavailableError) Error() string {
	if e.For != "" {
		return fmt.Sprintf("IPPool %s: %s; it waits for %s", e.Pool, e.Reason, e.For)
	}
	return fmt.Sprintf("IPPool %s: %s", e.Pool, e.Reason)
}

// Choose returns the addresses that a pod gets on a node: those that it has, else those that its name or its workload
// kept, else free ones. The error is an *UnavailableError that names the pool and the reason. A pod that has its
// addresses keeps them, whatever its request says now.
func (b *Book) Choose(a Asker, node Node) ([]Choice, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.choose(a, node)
}

// Reserve is Choose for a caller that writes the choices next. Others do not get the addresses until Done is called.
func (b *Book) Reserve(a Asker, node Node) ([]Choice, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	choices, err := b.choose(a, node)
	for _, c := range choices {
		b.pending[c.Address] = a.UID
	}
	return choices, err
}

// Done ends what Reserve began for a pod, whether or not the choices were written.
func (b *Book) Done(pod types.UID, choices []Choice) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range choices {
		if b.pending[c.Address] == pod {
			delete(b.pending, c.Address)
		}
	}
}

func (b *Book) choose(a Asker, node Node) ([]Choice, error) {
	s := b.pools[a.Request.Pool]
	if held := b.sorted(b.byPod[a.UID]); len(held) > 0 && (s == nil || !s.known || len(held) >= a.Request.Count*len(s.Families())) {
		return choicesOf(held), nil
	}
	switch {
	case s == nil || !s.known:
		return nil, &UnavailableError{Pool: a.Request.Pool, Reason: "there is no IPPool of this name"}
	case !s.Namespaces.Matches(a.NamespaceLabels):
		return nil, &UnavailableError{Pool: s.Name, Reason: "spec.namespaces does not select namespace " + a.Namespace}
	}
	c := chooser{Book: b, shelf: s, asker: a, node: node}
	for index := range a.Request.Count {
		for _, is4 := range s.Families() {
			if err := c.one(int32(index), is4); err != nil {
				return nil, err
			}
		}
	}
	return c.choices, nil
}

func choicesOf(held []*networkv1alpha1.FloatingIP) (choices []Choice) {
	for _, f := range held {
		address, _ := addressOf(f)
		choices = append(choices, Choice{address, f.Spec.Holder.Index, f})
	}
	return choices
}

// chooser chooses the addresses of one pod.
type chooser struct {
	*Book
	shelf   *shelf
	asker   Asker
	node    Node
	choices []Choice
	// elsewhere is set when an address would be there on another node.
	elsewhere bool
}

// one chooses the address of an index and a family.
func (c *chooser) one(index int32, is4 bool) error {
	if had, err := c.own(index, is4); had != nil || err != nil {
		return c.take(had, err)
	}
	if address, ok := c.running(index, is4); ok {
		return c.take(&Choice{address, index, c.ips[address]}, nil)
	}
	if kept := c.keptByWorkload(index, is4); kept != nil {
		return c.take(&Choice{kept.address(), index, kept.FloatingIP}, nil)
	}
	if c.asker.Limited && c.has(index, is4) >= c.asker.Limit {
		return &UnavailableError{Pool: c.shelf.Name, For: c.leaving(index, is4),
			Reason: fmt.Sprintf("%s has %d addresses, one for each replica", c.asker.Workload, c.asker.Limit)}
	}
	if c.shelf.refused != "" {
		return &UnavailableError{Pool: c.shelf.Name, Reason: "it is not in force: " + c.shelf.refused}
	}
	address, ok := c.free(index, is4)
	if !ok {
		return c.unavailable(index, is4)
	}
	return c.take(&Choice{address, index, c.ips[address]}, nil)
}

func (c *chooser) take(choice *Choice, err error) error {
	if err != nil {
		return err
	}
	c.choices = append(c.choices, *choice)
	return nil
}

// own returns the address that the pod has, or that is kept for its name.
func (c *chooser) own(index int32, is4 bool) (*Choice, error) {
	for _, f := range c.sorted(c.byWork[c.asker.Workload]) {
		h, address := f.Spec.Holder, ip{f}.address()
		if f.Spec.Pool != c.shelf.Name || h.Index != index || address.Is4() != is4 {
			continue
		}
		switch {
		case h.PodUID == c.asker.UID:
			return &Choice{address, index, f}, nil
		case !c.asker.Workload.NamesPods() || h.Pod != c.asker.Name:
			continue
		case h.PodUID != "":
			return nil, &UnavailableError{Pool: c.shelf.Name, Reason: fmt.Sprintf("%s belongs to this pod's name", address),
				For: fmt.Sprintf("the end of the former pod %s/%s (UID %s)", h.Namespace, h.Pod, h.PodUID)}
		}
		segment, inside := c.shelf.SegmentOf(address)
		if inside && !segment.Nodes.Matches(c.node.Labels) {
			return nil, &UnavailableError{Pool: c.shelf.Name, Elsewhere: true,
				Reason: fmt.Sprintf("%s, which is kept for this pod, is carried by nodes with %s, not by %s", address, segment.Nodes, c.node.name())}
		}
		return &Choice{address, index, f}, nil
	}
	return nil, nil
}

// running returns an address that the running pod uses, and nobody has.
func (c *chooser) running(index int32, is4 bool) (netip.Addr, bool) {
	for _, address := range c.asker.Has {
		f := c.ips[address]
		if c.fits(address, index, is4) && (f == nil || f.Spec.Pool == c.shelf.Name && f.Spec.Holder == nil) {
			return address, true
		}
	}
	return netip.Addr{}, false
}

// ip is a FloatingIP whose address was parsed before.
type ip struct{ *networkv1alpha1.FloatingIP }

func (f ip) address() netip.Addr {
	address, _ := addressOf(f.FloatingIP)
	return address
}

// keptByWorkload returns an address that the workload kept without a pod: that of the node first, as a DaemonSet's
// pod returns to its node.
func (c *chooser) keptByWorkload(index int32, is4 bool) *ip {
	var found *ip
	for _, f := range c.sorted(c.byWork[c.asker.Workload]) {
		h, one := f.Spec.Holder, ip{f}
		if c.asker.Workload.NamesPods() || h.PodUID != "" || f.Spec.Pool != c.shelf.Name || !c.fits(one.address(), index, is4) {
			continue
		}
		if h.Node == c.node.Name {
			return &one
		}
		if found == nil {
			found = &one
		}
	}
	return found
}

// has counts the addresses of the workload for an index and a family.
func (c *chooser) has(index int32, is4 bool) (n int) {
	for a := range c.byWork[c.asker.Workload] {
		if f := c.ips[a]; f.Spec.Pool == c.shelf.Name && f.Spec.Holder.Index == index && a.Is4() == is4 {
			n++
		}
	}
	return n
}

// fits reports whether an address suits the request and the node, and is not chosen yet.
func (c *chooser) fits(address netip.Addr, index int32, is4 bool) bool {
	if address.Is4() != is4 || c.isChosen(address) {
		return false
	}
	segment, inside := c.shelf.SegmentOf(address)
	if !inside || !c.inRanges(address, index) {
		return false
	}
	if !segment.Nodes.Matches(c.node.Labels) {
		c.elsewhere = true
		return false
	}
	return true
}

// isChosen reports whether the address was chosen for this pod just now, or for another.
func (c *chooser) isChosen(address netip.Addr) bool {
	if by, pending := c.pending[address]; pending && by != c.asker.UID {
		return true
	}
	return slices.ContainsFunc(c.choices, func(o Choice) bool { return o.Address == address })
}

// inRanges reports whether the request's ranges for an index have the address. Without ranges of its family, all do.
func (c *chooser) inRanges(address netip.Addr, index int32) bool {
	ranges := c.ranges(index, address.Is4())
	return len(ranges) == 0 || slices.ContainsFunc(ranges, func(r networkv1alpha1.AddressRange) bool { return r.Contains(address) })
}

func (c *chooser) ranges(index int32, is4 bool) (found []networkv1alpha1.AddressRange) {
	if int(index) >= len(c.asker.Request.Ranges) {
		return nil
	}
	for _, r := range c.asker.Request.Ranges[index] {
		if r.First.Is4() == is4 {
			found = append(found, r)
		}
	}
	return found
}

// free returns an address that nobody has: first one with a FloatingIP, the longest free, since others may know it.
func (c *chooser) free(index int32, is4 bool) (netip.Addr, bool) {
	for _, address := range c.shelf.free {
		if c.fits(address, index, is4) {
			return address, true
		}
	}
	for i := range c.shelf.Segments {
		segment := c.shelf.Segments[i]
		if segment.First.Is4() != is4 || c.shelf.taken[i] >= segment.Size() {
			continue
		}
		if !segment.Nodes.Matches(c.node.Labels) {
			c.elsewhere = c.elsewhere || c.overlapsRanges(segment, index)
			continue
		}
		if address, ok := c.unknown(i, index); ok {
			return address, true
		}
	}
	return netip.Addr{}, false
}

func (c *chooser) overlapsRanges(segment Segment, index int32) bool {
	ranges := c.ranges(index, segment.First.Is4())
	return len(ranges) == 0 || slices.ContainsFunc(ranges, segment.Overlaps)
}

// unknown searches a segment for an address without a FloatingIP.
func (c *chooser) unknown(i int, index int32) (netip.Addr, bool) {
	segment := c.shelf.Segments[i]
	ranges := c.ranges(index, segment.First.Is4())
	if len(ranges) == 0 {
		address, ok := c.search(segment.AddressRange, c.shelf.next[i])
		if ok {
			c.shelf.next[i] = address.Next()
		}
		return address, ok
	}
	for _, r := range ranges {
		if !r.Overlaps(segment.AddressRange) {
			continue
		}
		r = networkv1alpha1.AddressRange{First: later(r.First, segment.First), Last: earlier(r.Last, segment.Last)}
		if address, ok := c.search(r, r.First); ok {
			return address, true
		}
	}
	return netip.Addr{}, false
}

// search returns the first address from start on, and then from the beginning of the range, without a FloatingIP.
func (c *chooser) search(r networkv1alpha1.AddressRange, start netip.Addr) (netip.Addr, bool) {
	if !r.Contains(start) {
		start = r.First
	}
	address := start
	for {
		if _, known := c.ips[address]; !known && !c.isChosen(address) {
			return address, true
		}
		if address == r.Last {
			address = r.First
		} else {
			address = address.Next()
		}
		if address == start {
			return netip.Addr{}, false
		}
	}
}

func later(a, b netip.Addr) netip.Addr {
	if a.Less(b) {
		return b
	}
	return a
}

func earlier(a, b netip.Addr) netip.Addr {
	if b.Less(a) {
		return b
	}
	return a
}

// unavailable explains that no address is free.
func (c *chooser) unavailable(index int32, is4 bool) error {
	family := "IPv6"
	if is4 {
		family = "IPv4"
	}
	err := &UnavailableError{Pool: c.shelf.Name, Elsewhere: c.elsewhere}
	switch ranges := c.ranges(index, is4); {
	case c.elsewhere:
		err.Reason = fmt.Sprintf("it has no free %s address that %s can carry", family, c.node.name())
	case len(ranges) > 0:
		err.Reason = fmt.Sprintf("no address of the requested ranges %v is free", ranges)
	default:
		err.Reason = fmt.Sprintf("all its %s addresses are in use", family)
	}
	err.For = c.leaving(index, is4)
	return err
}

// leaving names the pod of the workload whose address this pod can get when it ends: in a rolling update, one that is
// replaced.
func (c *chooser) leaving(index int32, is4 bool) string {
	if c.asker.Workload.NamesPods() {
		return ""
	}
	for _, f := range c.sorted(c.byWork[c.asker.Workload]) {
		if h := f.Spec.Holder; h.PodUID != "" && f.Spec.Pool == c.shelf.Name && c.fits(ip{f}.address(), index, is4) {
			return fmt.Sprintf("the end of a pod of %s, such as %s, which has %s", c.asker.Workload, h.Pod, f.Spec.Address)
		}
	}
	return ""
}

// Claimed returns the FloatingIP that gives a choice to a pod on a node. The caller writes it.
func Claimed(c Choice, a Asker, node string, now metav1.Time) *networkv1alpha1.FloatingIP {
	f := &networkv1alpha1.FloatingIP{}
	if c.Had != nil {
		f = c.Had.DeepCopy()
	} else {
		f.Name = networkv1alpha1.FloatingIPName(c.Address)
		f.Spec.Address, f.Spec.Pool = networkv1alpha1.EgressAddress(c.Address.String()), a.Request.Pool
	}
	metav1.SetMetaDataLabel(&f.ObjectMeta, networkv1alpha1.PoolLabel, f.Spec.Pool)
	f.Spec.Holder = &networkv1alpha1.FloatingIPHolder{
		APIVersion: a.Workload.APIVersion, Kind: a.Workload.Kind, Namespace: a.Workload.Namespace, Name: a.Workload.Name,
		UID: a.WorkloadUID, Pod: a.Name, PodUID: a.UID, Index: c.Index, Node: node, ReleasePolicy: a.Request.Policy, TTL: ttlOf(a.Request), Since: now,
	}
	return f
}

func ttlOf(r networkv1alpha1.FloatingRequest) *metav1.Duration {
	if r.TTL == 0 {
		return nil
	}
	return &metav1.Duration{Duration: r.TTL}
}
