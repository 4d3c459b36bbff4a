package floating

import (
	"cmp"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// chooser chooses the addresses of one pod, on one node after another.
type chooser struct {
	*Book
	shelf     *shelf
	requester Requester
	// held are the addresses that the pod has, kept the addresses that its workload has without a pod, IPv4 first, by their
	// index; named the addresses of another pod of its name. The pool of the latter two is the requested one.
	held, kept, named []entry
	// has counts the addresses of IPv6 and of IPv4 that the running pod uses.
	has [2]int

	node Node
	// matches has 1 for each selector of the pool that selects the node, else 0.
	matches []byte
	choices []Choice
	// elsewhere is set when an address would be there on another node.
	elsewhere bool
	// nothing is why the pod gets no further address; nil: it can get more.
	nothing error
}

// entry is a FloatingIP and its address.
type entry struct {
	*networkv1alpha1.FloatingIP
	address netip.Addr
}

// chooser prepares what does not depend on the node. The error is that of any node.
func (b *Book) chooser(a Requester) (*chooser, error) {
	c := &chooser{Book: b, shelf: b.pools[a.Request.Pool], requester: a}
	for address := range b.byPod[a.UID] {
		if len(a.Has) == 0 || slices.Contains(a.Has, address) { // a running pod cannot change its addresses
			c.held = append(c.held, entry{b.ips[address], address})
		}
	}
	slices.SortFunc(c.held, func(x, y entry) int { return cmp.Or(cmp.Compare(x.Spec.Pool, y.Spec.Pool), byIndex(x, y)) })
	for _, used := range a.Has {
		c.has[one(used.Is4())]++
	}
	switch {
	case c.isUnknown():
		c.nothing = &UnavailableError{Pool: a.Request.Pool, Reason: "there is no IPPool of this name"}
	case !c.shelf.Namespaces.Matches(a.NamespaceLabels):
		c.nothing = &UnavailableError{Pool: a.Request.Pool, Reason: "spec.namespaces does not select namespace " + a.Namespace}
	}
	switch {
	case c.nothing == nil:
		c.findKept()
	case !c.isComplete():
		return nil, c.nothing
	}
	return c, nil
}

// findKept finds the addresses that the workload has for this pod.
func (c *chooser) findKept() {
	w := c.byWork[c.requester.Workload]
	if w == nil {
		return
	}
	ofPool := func(addresses map[netip.Addr]struct{}) (found []entry) {
		for address := range addresses {
			if f := (entry{c.ips[address], address}); f.Spec.Pool == c.shelf.Name && f.Spec.Holder.PodUID != c.requester.UID {
				found = append(found, f)
			}
		}
		return found
	}
	if c.requester.Workload.NamesPods() {
		c.named = ofPool(w.named[c.requester.Name])
	} else {
		c.kept = ofPool(w.kept)
	}
	slices.SortFunc(c.named, byIndex)
	slices.SortFunc(c.kept, byIndex)
}

func (c *chooser) isUnknown() bool { return c.shelf == nil || !c.shelf.known }

// isComplete reports whether the pod has all its addresses: the addresses that it uses, else as many as it requests. A pod that has
// addresses of another pool than it requests now keeps those.
func (c *chooser) isComplete() bool {
	switch {
	case len(c.requester.Has) > 0:
		return len(c.held) == len(c.requester.Has)
	case len(c.held) == 0:
		return false
	case c.isUnknown(), !slices.ContainsFunc(c.held, func(f entry) bool { return f.Spec.Pool == c.shelf.Name }):
		return true
	}
	for s := range c.slots() {
		if !slices.ContainsFunc(c.held, func(f entry) bool { return f.Spec.Pool == c.shelf.Name && slotOf(f) == s }) {
			return false
		}
	}
	return true
}

// slot is a place of a pod for an address.
type slot struct {
	index int32
	is4   bool
}

func slotOf(f entry) slot { return slot{f.Spec.Holder.Index, f.address.Is4()} }

// slots iterates over the addresses that the pod needs: as many as it requests, or as many as it uses already.
func (c *chooser) slots() iter.Seq[slot] {
	families := []bool{true, false}
	wanted := func(index, family int) bool { return index < c.has[family] }
	if len(c.requester.Has) == 0 {
		families, wanted = c.shelf.Families(), func(index, _ int) bool { return index < c.requester.Request.Count }
	}
	return func(yield func(slot) bool) {
		for index := range networkv1alpha1.MaxFloatingIPs {
			for _, is4 := range families {
				if wanted(index, one(is4)) && !yield(slot{int32(index), is4}) {
					return
				}
			}
		}
	}
}

// byIndex orders IPv4 first, then by index, then by address.
func byIndex(x, y entry) int {
	return cmp.Or(-cmp.Compare(one(x.address.Is4()), one(y.address.Is4())), cmp.Compare(x.Spec.Holder.Index, y.Spec.Holder.Index),
		x.address.Compare(y.address))
}

func (c *chooser) setNode(node Node) {
	c.node, c.choices, c.elsewhere, c.matches = node, nil, false, c.matches[:0]
	if c.shelf == nil {
		return
	}
	for _, selector := range c.shelf.selectors {
		c.matches = append(c.matches, byte(one(selector.Matches(node.Labels))))
	}
}

// carries reports whether the node carries a segment.
func (c *chooser) carries(segment int) bool { return c.matches[c.shelf.selector[segment]] == 1 }

// isSpecial reports whether the addresses depend on the name of the node.
func (c *chooser) isSpecial(node string) bool {
	on := func(f entry) bool { return f.Spec.Holder.Node == node }
	return slices.ContainsFunc(c.held, on) || slices.ContainsFunc(c.kept, on)
}

// freeCount counts the unused addresses on the segments that the node carries, in the family with fewer.
func (c *chooser) freeCount() int64 {
	if c.shelf == nil {
		return 0
	}
	var free [2]int64
	for i, s := range c.shelf.Segments {
		if c.carries(i) {
			family := one(s.First.Is4())
			free[family] = min(free[family]+c.shelf.sizes[i]-c.shelf.taken[i], maxFree)
		}
	}
	fewest := int64(maxFree)
	for _, is4 := range c.shelf.Families() {
		fewest = min(fewest, free[one(is4)])
	}
	return fewest
}

// maxFree bounds the counts of free addresses, so that a segment of IPv6 does not outweigh all others.
const maxFree = 1 << 20

// never returns an error if the node carries no address of a family of the pool, whoever has which.
func (c *chooser) never() error {
	if c.nothing != nil || len(c.shelf.Segments) == 0 {
		return cmp.Or(c.nothing, error(&UnavailableError{Pool: c.requester.Request.Pool, Reason: "it has no addresses"}))
	}
	for _, is4 := range c.shelf.Families() {
		var selectors []string
		carried := false
		for i, segment := range c.shelf.Segments {
			if segment.First.Is4() != is4 {
				continue
			}
			if carried = c.carries(i); carried {
				break
			}
			if text := segment.Nodes.String(); !slices.Contains(selectors, text) {
				selectors = append(selectors, text)
			}
		}
		if !carried {
			return &UnavailableError{Pool: c.shelf.Name, Elsewhere: true, Reason: fmt.Sprintf(
				"it has no %s address that this node can carry, but for nodes with %s", family(is4), strings.Join(selectors, " or "))}
		}
	}
	return nil
}

func family(is4 bool) string {
	if is4 {
		return "IPv4"
	}
	return "IPv6"
}

// on chooses the addresses on a node, in the order of their index, IPv4 first.
func (c *chooser) on(node Node) ([]Choice, error) {
	c.setNode(node)
	dropped := false
	for rest := c.held; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].Spec.Pool == rest[0].Spec.Pool && slotOf(rest[n]) == slotOf(rest[0]) {
			n++
		}
		best := slices.MinFunc(rest[:n], c.byPreference)
		rest = rest[n:]
		if err := c.carried(best, "which is kept for this pod"); err != nil && c.rank(best) > 1 {
			if c.requester.Workload.NamesPods() && wasKept(best.FloatingIP) {
				return nil, err
			}
			dropped, c.elsewhere = true, true // the pod is on no node that carries it, and so does not use it
			continue
		}
		c.choices = append(c.choices, Choice{best.address, best.Spec.Holder.Index, best.FloatingIP})
	}
	if dropped && c.nothing != nil {
		return nil, c.nothing
	}
	if dropped || !c.isComplete() {
		for s := range c.slots() {
			if slices.ContainsFunc(c.choices, func(o Choice) bool { return o.Had != nil && o.Had.Spec.Pool == c.shelf.Name && o.slot() == s }) {
				continue
			}
			choice, err := c.one(s.index, s.is4)
			if err != nil {
				return nil, err
			}
			c.choices = append(c.choices, choice)
		}
	}
	slices.SortStableFunc(c.choices, func(x, y Choice) int {
		return cmp.Or(cmp.Compare(x.Index, y.Index), -cmp.Compare(one(x.Address.Is4()), one(y.Address.Is4())))
	})
	return c.choices, nil
}

func (c Choice) slot() slot { return slot{c.Index, c.Address.Is4()} }

// byPreference orders what a pod has twice for one slot, because two processes gave it an address at a time.
func (c *chooser) byPreference(x, y entry) int {
	return cmp.Or(cmp.Compare(c.rank(x), c.rank(y)), x.Spec.Holder.Since.Compare(y.Spec.Holder.Since.Time), x.address.Compare(y.address))
}

// rank is 0 for an address that the pod uses, 1 if it got it on this node, 2 if the node carries it, else 3.
func (c *chooser) rank(f entry) int {
	switch {
	case slices.Contains(c.requester.Has, f.address):
		return 0
	case c.node.Name != "" && f.Spec.Holder.Node == c.node.Name:
		return 1
	case c.carried(f, "") == nil:
		return 2
	}
	return 3
}

// one chooses the address of an index and a family.
func (c *chooser) one(index int32, is4 bool) (choice Choice, err error) {
	if len(c.requester.Has) > 0 {
		if address, ok := c.running(index, is4); ok {
			return Choice{address, index, c.ips[address]}, nil
		}
		return choice, &UnavailableError{Pool: c.shelf.Name,
			Reason: fmt.Sprintf("the pod uses %v, which cannot be given to it again", c.requester.Has)}
	}
	for _, f := range c.named {
		if f.Spec.Holder.Index == index && f.address.Is4() == is4 {
			return Choice{f.address, index, f.FloatingIP}, c.former(f)
		}
	}
	if kept := c.keptByWorkload(index, is4); kept.FloatingIP != nil {
		return Choice{kept.address, index, kept.FloatingIP}, nil
	}
	if c.requester.Limited && c.countOf(index, is4) >= c.requester.Limit {
		return choice, &UnavailableError{Pool: c.shelf.Name, For: c.leaving(index, is4), Elsewhere: c.elsewhere,
			Reason: fmt.Sprintf("%s has %d addresses, one for each replica", c.requester.Workload, c.requester.Limit)}
	}
	if c.shelf.refused != "" {
		return choice, &UnavailableError{Pool: c.shelf.Name, Reason: "it is not in force: " + c.shelf.refused}
	}
	address, ok := c.free(index, is4)
	if !ok {
		return choice, c.unavailable(index, is4)
	}
	return Choice{address, index, c.ips[address]}, nil
}

// former reports why the pod cannot get an address that belongs to its name.
func (c *chooser) former(f entry) error {
	if h := f.Spec.Holder; h.PodUID != "" {
		return &UnavailableError{Pool: c.shelf.Name, Reason: fmt.Sprintf("%s belongs to this pod's name", f.address),
			For: fmt.Sprintf("the end of the former pod %s/%s (UID %s)", h.Namespace, h.Pod, h.PodUID)}
	}
	return c.carried(f, "which is kept for this pod")
}

// carried reports that the node does not carry an address.
func (c *chooser) carried(f entry, whose string) error {
	if c.shelf == nil || f.Spec.Pool != c.shelf.Name {
		return nil
	}
	segment := c.shelf.segmentOf(f.address)
	if segment < 0 || c.carries(segment) {
		return nil
	}
	return &UnavailableError{Pool: c.shelf.Name, Elsewhere: true, Node: c.node.Name,
		Reason: fmt.Sprintf("%s, %s, is carried by nodes with %s", f.address, whose, c.shelf.Segments[segment].Nodes)}
}

// running returns an address that the running pod uses, and that no other pod or workload has.
func (c *chooser) running(index int32, is4 bool) (netip.Addr, bool) {
	for _, address := range c.requester.Has {
		if !c.fits(address, index, is4) && !c.fitsOutside(address, index, is4) {
			continue
		}
		f := c.ips[address]
		if f == nil || f.Spec.Pool == c.shelf.Name &&
			(f.Spec.Holder == nil || f.Spec.Holder.PodUID == "" && WorkloadOf(f.Spec.Holder) == c.requester.Workload) {
			return address, true
		}
	}
	return netip.Addr{}, false
}

// keptByWorkload returns an address that the workload keeps without a pod. It prefers an address that was last on the node,
// so that a DaemonSet's pod gets the address of its predecessor.
func (c *chooser) keptByWorkload(index int32, is4 bool) (found entry) {
	for _, f := range c.kept {
		if f.Spec.Holder.Index != index || !c.fits(f.address, index, is4) {
			continue
		}
		if f.Spec.Holder.Node == c.node.Name {
			return f
		}
		if found.FloatingIP == nil {
			found = f
		}
	}
	return found
}

// countOf counts the addresses of the workload for an index and a family, without what the pod itself drops.
func (c *chooser) countOf(index int32, is4 bool) (n int) {
	w := c.byWork[c.requester.Workload]
	if w == nil {
		return 0
	}
	at := place{c.shelf.Name, slot{index, is4}}
	if with := w.places[at]; with != nil {
		n = with.held
	}
	for address := range c.byPod[c.requester.UID] {
		if f := (entry{c.ips[address], address}); WorkloadOf(f.Spec.Holder) == c.requester.Workload && placeOf(f) == at {
			n--
		}
	}
	for _, f := range c.kept {
		if placeOf(f) == at {
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
	segment := c.shelf.segmentOf(address)
	if segment < 0 || !c.inRanges(address, index) {
		return false
	}
	if !c.carries(segment) {
		c.elsewhere = true
		return false
	}
	return true
}

// fitsOutside is fits for an address that a running pod uses and that the ranges of its pool do not have any more. It is false if
// another pool has the address. The FloatingIP must exist, because it says that the address was of this pool.
func (c *chooser) fitsOutside(address netip.Addr, index int32, is4 bool) bool {
	if c.ips[address] == nil || address.Is4() != is4 || c.isChosen(address) || !c.inRanges(address, index) {
		return false
	}
	for _, s := range c.pools {
		if s.segmentOf(address) >= 0 {
			return false
		}
	}
	return true
}

// isChosen reports whether the address was chosen for this pod just now, or for another.
func (c *chooser) isChosen(address netip.Addr) bool {
	if by, pending := c.pending[address]; pending && by != c.requester.UID {
		return true
	}
	return slices.ContainsFunc(c.choices, func(o Choice) bool { return o.Address == address })
}

// inRanges reports whether the request's ranges for an index have the address. Without ranges of its family, all do.
func (c *chooser) inRanges(address netip.Addr, index int32) bool {
	if int(index) >= len(c.requester.Request.Ranges) {
		return true
	}
	limited := false
	for _, r := range c.requester.Request.Ranges[index] {
		if r.Contains(address) {
			return true
		}
		limited = limited || r.First.Is4() == address.Is4()
	}
	return !limited
}

// ranges returns the request's ranges for an index and a family.
func (c *chooser) ranges(index int32, is4 bool) (found []networkv1alpha1.AddressRange) {
	if int(index) >= len(c.requester.Request.Ranges) {
		return nil
	}
	for _, r := range c.requester.Request.Ranges[index] {
		if r.First.Is4() == is4 {
			found = append(found, r)
		}
	}
	return found
}

// unavailable explains that no address is free.
func (c *chooser) unavailable(index int32, is4 bool) error {
	err := &UnavailableError{Pool: c.shelf.Name, Elsewhere: c.elsewhere}
	switch ranges := c.ranges(index, is4); {
	case c.elsewhere && len(ranges) > 0:
		err.Reason, err.Node = fmt.Sprintf("free addresses of the requested ranges %v are carried by other nodes", ranges), c.node.Name
	case c.elsewhere:
		err.Reason, err.Node = fmt.Sprintf("its free %s addresses are carried by other nodes", family(is4)), c.node.Name
	case len(ranges) > 0:
		err.Reason = fmt.Sprintf("no address of the requested ranges %v is free", ranges)
	default:
		err.Reason = fmt.Sprintf("all its %s addresses are in use", family(is4))
	}
	err.For = c.leaving(index, is4)
	return err
}

// leaving names the pod of the workload whose address this pod can get when it ends: in a rolling update, a pod that is
// replaced.
func (c *chooser) leaving(index int32, is4 bool) string {
	if c.requester.Workload.NamesPods() {
		return ""
	}
	var first entry
	w := c.byWork[c.requester.Workload]
	if w == nil {
		return ""
	}
	for a := range w.all {
		f := entry{c.ips[a], a}
		if f.Spec.Holder.PodUID != "" && f.Spec.Pool == c.shelf.Name && c.fits(a, index, is4) &&
			(first.FloatingIP == nil || byIndex(f, first) < 0) {
			first = f
		}
	}
	if first.FloatingIP == nil {
		return ""
	}
	return fmt.Sprintf("the end of a pod of %s, such as %s, which has %s", c.requester.Workload, first.Spec.Holder.Pod, first.address)
}
