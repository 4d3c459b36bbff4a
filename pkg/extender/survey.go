package extender

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/weft-network/weft/pkg/floating"
	"github.com/weft-network/weft/pkg/floating/claim"
)

// keptScore is the score of a node that carries what is kept for the pod, and fullScore the score of the nodes with
// most free addresses. The node where a kept address was has extenderv1.MaxExtenderPriority.
const (
	keptScore = extenderv1.MaxExtenderPriority - 1
	fullScore = keptScore - 1
)

// survey has what one pod gets on each node. Nodes of the same segments share an answer.
type survey struct {
	book    *floating.Book
	asker   floating.Asker
	pool    floating.Pool
	invalid error // why no node carries an address
	byClass map[string]*answer
	// were are the nodes where addresses were that the workload keeps.
	were map[string]bool
}

// answer is what a pod gets on nodes of a class.
type answer struct {
	err error
	// final says that the end of other pods does not help.
	final bool
	// kept says that the addresses are the pod's own or its workload's. free counts the free ones otherwise.
	kept bool
	free int64
}

// survey returns the survey of a pod; wanted is false for a pod that requests no address.
func (e *Extender) survey(ctx context.Context, pod *corev1.Pod) (s *survey, wanted bool, err error) {
	if pod == nil {
		return nil, false, errors.New("the request has no pod")
	}
	_, wanted, invalid := claim.Request(pod)
	if invalid != nil {
		return &survey{invalid: invalid, byClass: map[string]*answer{}}, true, nil
	}
	if !wanted {
		return nil, false, nil
	}
	asker, _, err := e.Floating.Asker(ctx, pod)
	if err != nil {
		return nil, false, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	s = &survey{book: e.Floating.Book, asker: asker, byClass: map[string]*answer{}, were: map[string]bool{}}
	s.pool, _, _ = s.book.Pool(asker.Request.Pool)
	for _, f := range s.book.OfWorkload(asker.Workload) {
		if h := f.Spec.Holder; h.PodUID == "" && (!asker.Workload.NamesPods() || h.Pod == asker.Name) {
			s.were[h.Node] = true
		}
	}
	return s, true, nil
}

// on returns what the pod gets on a node.
func (s *survey) on(node floating.Node) *answer {
	class := s.class(node)
	a := s.byClass[class]
	if a == nil {
		a = s.answer(floating.Node{Labels: node.Labels})
		s.byClass[class] = a
	}
	return a
}

// class names the segments that a node carries.
func (s *survey) class(node floating.Node) string {
	segments := make([]byte, len(s.pool.Segments))
	for i, segment := range s.pool.Segments {
		segments[i] = '0'
		if segment.Nodes.Matches(node.Labels) {
			segments[i] = '1'
		}
	}
	return string(segments)
}

func (s *survey) answer(class floating.Node) *answer {
	if s.invalid != nil {
		return &answer{err: s.invalid, final: true}
	}
	choices, err := s.book.Choose(s.asker, class)
	if never := s.never(class); never != nil && err != nil {
		return &answer{err: never, final: true}
	}
	if err != nil {
		return &answer{err: err}
	}
	return &answer{kept: isKept(choices), free: slices.Min(append(s.book.FreeIn(s.pool.Name, class), maxFree))}
}

// maxFree bounds the counts of free addresses, so that a segment of IPv6 does not outweigh all others.
const maxFree = 1 << 20

// isKept reports whether all addresses are the pod's own or its workload's.
func isKept(choices []floating.Choice) bool {
	return !slices.ContainsFunc(choices, func(c floating.Choice) bool { return c.Had == nil || c.Had.Spec.Holder == nil })
}

// never returns an error if a node carries no address of a family of the pool, whoever has which.
func (s *survey) never(node floating.Node) error {
	if len(s.pool.Segments) == 0 || !s.pool.Namespaces.Matches(s.asker.NamespaceLabels) {
		_, err := s.book.Choose(s.asker, node)
		return err
	}
	for _, is4 := range s.pool.Families() {
		var selectors []string
		carried := false
		for _, segment := range s.pool.Segments {
			if segment.First.Is4() != is4 {
				continue
			}
			carried = carried || segment.Nodes.Matches(node.Labels)
			if text := segment.Nodes.String(); !slices.Contains(selectors, text) {
				selectors = append(selectors, text)
			}
		}
		if !carried {
			return &floating.UnavailableError{Pool: s.pool.Name, Elsewhere: true, Reason: fmt.Sprintf(
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

// score returns the score of a node. most is the highest number of free addresses of any node.
func (s *survey) score(node floating.Node, most int64) int64 {
	switch a := s.on(node); {
	case a.err != nil:
		return extenderv1.MinExtenderPriority
	case a.kept && s.were[node.Name]:
		return extenderv1.MaxExtenderPriority
	case a.kept:
		return keptScore
	case most > 0:
		return a.free * fullScore / most
	}
	return extenderv1.MinExtenderPriority
}

// after returns an error if a node carries no address of the pod even after the end of victims.
func (s *survey) after(node floating.Node, victims *extenderv1.MetaVictims) error {
	if s.invalid != nil {
		return s.invalid
	}
	var ended []types.UID
	for _, pod := range victims.Pods {
		ended = append(ended, types.UID(pod.UID))
	}
	_, err := s.book.ChooseAfter(s.asker, node, ended)
	return err
}
