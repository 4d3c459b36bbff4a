package floating

import (
	"errors"
	"iter"
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Requester is a pod that requests addresses.
type Requester struct {
	Namespace, Name string
	UID             types.UID
	Workload        Workload
	// WorkloadUID is the UID of the workload.
	WorkloadUID types.UID
	Request     networkv1alpha1.FloatingRequest
	// Has are the addresses at the pod's port. A running pod whose FloatingIP lost its holder gets them again, unless
	// another pod has them.
	Has []netip.Addr
	// NamespaceLabels are the labels of the pod's namespace.
	NamespaceLabels labels.Set
	// Limited says that the workload gets no more than Limit addresses of a pool for each index and family: it has a
	// pod more during a rolling update, which waits for the pod that it replaces.
	Limited bool
	Limit   int
}

// Node is where a pod is or may be scheduled.
type Node struct {
	// Name is empty when only the labels matter, as for a class of nodes.
	Name   string
	Labels labels.Set
}

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
	// Node is the node that does not carry what Reason names, or "".
	Node string
	// For is the pod that must end first, or "".
	For string
}

func (e *UnavailableError) Error() string {
	text := "IPPool " + e.Pool + ": " + e.Reason
	if e.Node != "" {
		text += ", not by node " + e.Node
	}
	if e.For != "" {
		text += "; it waits for " + e.For
	}
	return text
}

// Choose returns the addresses that a pod gets on a node: the addresses that it has, else addresses that its name or its workload
// kept, else free ones. The error is an *UnavailableError that names the pool and the reason. A pod that has its
// addresses keeps them, whatever its request says now.
func (b *Book) Choose(a Requester, node Node) ([]Choice, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.choose(a, node)
}

// Reserve is Choose for a caller that writes the choices next. Others do not get the addresses until Done is called.
func (b *Book) Reserve(a Requester, node Node) ([]Choice, error) {
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

func (b *Book) choose(a Requester, node Node) ([]Choice, error) {
	c, err := b.chooser(a)
	if err != nil {
		return nil, err
	}
	return c.on(node)
}

// Extra returns the addresses that a pod has besides its choices: of two processes that gave it an address at a time,
// only one prevails.
func (b *Book) Extra(pod types.UID, choices []Choice) (extra []*networkv1alpha1.FloatingIP) {
	for _, f := range b.Of(pod) {
		if !slices.ContainsFunc(choices, func(c Choice) bool { return c.Had == f || c.Address.String() == string(f.Spec.Address) }) {
			extra = append(extra, f)
		}
	}
	return extra
}

// HasExtra reports whether a pod has several addresses for one place, because processes gave it addresses at a time, or
// on several nodes before it was bound.
func (b *Book) HasExtra(pod types.UID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	seen := map[place]bool{}
	for address := range b.byPod[pod] {
		at := placeOf(entry{b.ips[address], address})
		if seen[at] {
			return true
		}
		seen[at] = true
	}
	return false
}

// Answer is what Choose would return for a node. It must not be changed, because nodes share it.
type Answer struct {
	Choices []Choice
	Err     error
	// Never is why the pod can never get an address on the node: the node carries no segment of a family of the pool. It is
	// nil if the end of other pods can help. It has a meaning only if Err is not nil.
	Never error
	// Free counts the unused addresses on the segments that the node carries, in the family with fewer.
	Free int64
}

// Kept counts the choices that are the pod's own or its workload's.
func (a *Answer) Kept() (n int) {
	for _, c := range a.Choices {
		if c.Had != nil && c.Had.Spec.Holder != nil {
			n++
		}
	}
	return n
}

// Was reports whether a choice that is kept was on a node before.
func (a *Answer) Was(node string) bool {
	return slices.ContainsFunc(a.Choices, func(c Choice) bool {
		return c.Had != nil && c.Had.Spec.Holder != nil && c.Had.Spec.Holder.Node == node
	})
}

// Survey returns what Choose would return for each node, for a scheduler. It evaluates nodes that carry the same
// segments once.
func (b *Book) Survey(a Requester, nodes []Node) []Answer {
	b.mu.Lock()
	defer b.mu.Unlock()
	answers := make([]Answer, len(nodes))
	c, err := b.chooser(a)
	if err != nil {
		for i := range answers {
			answers[i].Err, answers[i].Never = err, err
		}
		return answers
	}
	known := map[string]Answer{}
	var key []byte
	for i, node := range nodes {
		c.setNode(node)
		key = append(key[:0], c.matches...)
		answer, ok := known[string(key)]
		if special := c.isSpecial(node.Name); special || !ok {
			answer.Choices, answer.Err = c.on(node)
			answer.Free, answer.Never = c.freeCount(), c.never()
			if !special {
				known[string(key)] = answer
			}
		}
		answers[i] = answer
		var e *UnavailableError
		if errors.As(answer.Err, &e) && e.Node != "" && e.Node != node.Name {
			here := *e
			here.Node = node.Name
			answers[i].Err = &here
		}
	}
	return answers
}

// Classes returns a node without a name for each set of segments of a pool that one of the nodes carries.
func (b *Book) Classes(pool string, nodes iter.Seq[Node]) (classes []Node) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := &chooser{Book: b, shelf: b.pools[pool]}
	known := map[string]bool{}
	for node := range nodes {
		c.setNode(node)
		if !known[string(c.matches)] {
			known[string(c.matches)] = true
			classes = append(classes, Node{Labels: node.Labels})
		}
	}
	return classes
}

// Claimed returns the FloatingIP that gives a choice to a pod on a node. The caller writes it.
func Claimed(c Choice, a Requester, node string, now metav1.Time) *networkv1alpha1.FloatingIP {
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
		UID: a.WorkloadUID, Pod: a.Name, PodUID: a.UID, Index: c.Index, Node: node,
		ReleasePolicy: a.Request.Policy, TTL: ttlOf(a.Request), Since: now,
	}
	return f
}

func ttlOf(r networkv1alpha1.FloatingRequest) *metav1.Duration {
	if r.TTL == 0 {
		return nil
	}
	return &metav1.Duration{Duration: r.TTL}
}
