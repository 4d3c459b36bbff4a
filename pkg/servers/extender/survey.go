package extender

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/weft-network/weft/pkg/addresses/floating"
	"github.com/weft-network/weft/pkg/addresses/floating/claim"
)

// keptScore is the score of a node that carries an address kept for the pod, and fullScore the score of the nodes with
// most free addresses. The node where a kept address was has extenderv1.MaxExtenderPriority.
const (
	keptScore = extenderv1.MaxExtenderPriority - 1
	fullScore = keptScore - 1
)

// survey holds the addresses that a pod can get on each node of a request.
type survey struct {
	requester floating.Requester
	nodes     []floating.Node
	answers   []floating.Answer // one for each node
}

// request is what a pod requests.
type request struct {
	book      *floating.Book
	requester floating.Requester
	invalid   error // why no node carries an address
}

// request returns the request of a pod; wanted is false for a pod that requests no address.
func (e *Extender) request(ctx context.Context, pod *corev1.Pod) (r request, wanted bool, err error) {
	if pod == nil {
		return r, false, errors.New("the request has no pod")
	}
	r.book = e.Floating.Book
	if _, wanted, r.invalid = claim.Request(pod); r.invalid != nil || !wanted {
		return r, r.invalid != nil, nil
	}
	if r.requester, _, err = e.Floating.Requester(ctx, pod); err != nil {
		return r, false, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return r, true, nil
}

// survey computes the addresses that the pod can get on each node.
func (r request) survey(nodes []floating.Node) survey {
	s := survey{requester: r.requester, nodes: nodes}
	if r.invalid == nil {
		s.answers = r.book.Survey(r.requester, nodes)
		return s
	}
	s.answers = make([]floating.Answer, len(nodes))
	for i := range s.answers {
		s.answers[i].Err, s.answers[i].Never = r.invalid, r.invalid
	}
	return s
}

// after returns an error if a node carries no address of the pod even after the end of victims.
func (r request) after(node floating.Node, victims *extenderv1.MetaVictims) error {
	if r.invalid != nil {
		return r.invalid
	}
	var ended []types.UID
	for _, pod := range victims.Pods {
		ended = append(ended, types.UID(pod.UID))
	}
	_, err := r.book.ChooseAfter(r.requester, node, ended)
	return err
}

// most returns the highest number of free addresses of any node that the pod can go to.
func (s survey) most() (most int64) {
	for i := range s.answers {
		if s.answers[i].Err == nil {
			most = max(most, s.answers[i].Free)
		}
	}
	return most
}

// score returns the score of a node.
func (s survey) score(i int, most int64) int64 {
	switch a := &s.answers[i]; {
	case a.Err != nil:
		return extenderv1.MinExtenderPriority
	case a.Kept() == len(a.Choices) && a.Was(s.nodes[i].Name):
		return extenderv1.MaxExtenderPriority
	case a.Kept() == len(a.Choices):
		return keptScore
	case most > 0:
		return a.Free * fullScore / most
	}
	return extenderv1.MinExtenderPriority
}
