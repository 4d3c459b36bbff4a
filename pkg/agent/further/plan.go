package further

import (
	"context"
	"errors"
	"fmt"
	"slices"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/attach"
	"github.com/weft-network/weft/pkg/cni/cniwire"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/ovn/names"
)

// plan is what a pod requests, resolved.
type plan struct {
	*Networks
	sandbox  attach.Sandbox
	pod      *corev1.Pod
	elements []element
}

// element is one request with what serves it.
type element struct {
	networks.Request
	// network is the Network of Weft; empty: config is the configuration of another plugin.
	network string
	config  []byte
}

// port returns the logical port of an element on a Network.
func (e element) port(sandbox attach.Sandbox) string {
	return names.NetworkPort(e.network, sandbox.Namespace, sandbox.Pod, e.Interface)
}

// Plan implements attach.Further.
func (n *Networks) Plan(ctx context.Context, sandbox attach.Sandbox) (attach.FurtherPlan, error) {
	pod, err := n.podOf(ctx, sandbox)
	if err != nil {
		return nil, err
	}
	requests, err := networks.Parse(pod.Annotations, pod.Namespace)
	if err != nil {
		return nil, cniwire.Errorf(cniwire.CodeInvalidConfig, "%v", err)
	}
	p := &plan{Networks: n, sandbox: sandbox, pod: pod}
	for _, request := range requests {
		e, err := n.resolve(ctx, request)
		if err != nil {
			return nil, cniwire.Errorf(cniwire.CodeInvalidConfig, "%s: %v", request, err)
		}
		p.elements = append(p.elements, e)
	}
	return p, nil
}

// errReplaced says that the sandbox's pod does not exist any more.
var errReplaced = errors.New("the pod of this sandbox does not exist any more")

// podOf reads the pod of a sandbox from the API server.
func (n *Networks) podOf(ctx context.Context, sandbox attach.Sandbox) (*corev1.Pod, error) {
	var pod corev1.Pod
	name := types.NamespacedName{Namespace: sandbox.Namespace, Name: sandbox.Pod}
	if err := n.API.Get(ctx, name, &pod); apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("pod %s: %w", name, errReplaced)
	} else if err != nil {
		return nil, fmt.Errorf("pod %s: %w", name, err)
	}
	if sandbox.UID != "" && networkv1alpha1.InterfaceUID(&pod) != sandbox.UID {
		return nil, fmt.Errorf("pod %s has UID %s, not %s: %w", name, pod.UID, sandbox.UID, errReplaced)
	}
	return &pod, nil
}

// resolve reads the definition of a request. The error does not name the request.
func (n *Networks) resolve(ctx context.Context, request networks.Request) (e element, err error) {
	e.Request = request
	var nad nadv1.NetworkAttachmentDefinition
	if err := n.API.Get(ctx, request.Definition(), &nad); apierrors.IsNotFound(err) {
		return e, errors.New("the NetworkAttachmentDefinition does not exist")
	} else if err != nil {
		return e, err
	}
	definition, err := networks.ParseDefinition(&nad)
	if err != nil {
		return e, err
	}
	if e.network = definition.Network; e.network != "" {
		return e, nil
	}
	if n.Delegates == nil {
		return e, errors.New("this node's agent does not run other plugins (--delegates)")
	}
	e.config, err = n.Delegates.configOf(nad.Name, definition.Config)
	return e, err
}

// DefaultRoutes implements attach.FurtherPlan.
func (p *plan) DefaultRoutes() (families []string) {
	for _, e := range p.elements {
		for _, gateway := range e.DefaultRoute {
			families = append(families, names.Family(gateway))
		}
	}
	slices.Sort(families)
	return families
}

// Attach implements attach.FurtherPlan. It writes network-status, and whatever prevents that is tried again later.
func (p *plan) Attach(ctx context.Context) error {
	for i, e := range p.elements {
		if err := p.attach(ctx, p.sandbox, e); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", e, err), p.undo(p.elements[:i]))
		}
	}
	p.finished(ctx, p.sandbox, p.pod)
	return nil
}

// undo detaches elements in reverse order; the runtime's context may be over.
func (p *plan) undo(elements []element) (failures error) {
	ctx, cancel := context.WithTimeout(context.Background(), undoTimeout)
	defer cancel()
	for _, e := range slices.Backward(elements) {
		failures = errors.Join(failures, p.detachElement(ctx, p.sandbox, e))
	}
	return failures
}

// attach makes the interface of an element.
func (n *Networks) attach(ctx context.Context, sandbox attach.Sandbox, e element) error {
	if e.network == "" {
		return n.Delegates.add(ctx, sandbox, e)
	}
	_, err := n.Ports.AttachPort(ctx, sandbox, e.port(sandbox), e.Interface, networkOf(e.network), e.Hash())
	return err
}

// networkOf returns the name under which the agent records an interface on a Network. A CNI network cannot have it,
// so that GC of a CNI network leaves the interface alone.
func networkOf(network string) string { return "network/" + network }

func (n *Networks) detachElement(ctx context.Context, sandbox attach.Sandbox, e element) error {
	if e.network == "" {
		return n.Delegates.remove(ctx, sandbox.ContainerID, e.Interface)
	}
	return n.Ports.DetachPort(ctx, e.port(sandbox), sandbox.ContainerID, e.Interface)
}
