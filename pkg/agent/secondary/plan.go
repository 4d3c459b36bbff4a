package secondary

import (
	"context"
	"errors"
	"fmt"
	"slices"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weft-network/weft/pkg/agent/attach"
	"github.com/weft-network/weft/pkg/agent/podapi"
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
	// resource is the name of the resource that the definition takes a device of; empty: none.
	resource string
}

// port returns the logical port of an element on a Network.
func (e element) port(sandbox attach.Sandbox) string {
	return names.NetworkPort(e.network, sandbox.Namespace, sandbox.Pod, e.Interface)
}

// Plan implements attach.Secondary.
func (n *Networks) Plan(ctx context.Context, sandbox attach.Sandbox) (attach.FurtherPlan, error) {
	pod, err := podapi.Read(ctx, n.API, sandbox)
	if err != nil {
		return nil, err
	}
	if err := n.checkDefault(ctx, pod); err != nil {
		return nil, cniwire.Errorf(cniwire.CodeInvalidConfig, "%v", err)
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

// resolve reads the definition of a request. The error does not name the request.
func (n *Networks) resolve(ctx context.Context, request networks.Request) (e element, err error) {
	e.Request = request
	definition, err := n.definition(ctx, request.Definition())
	if err == nil {
		err = definition.Secondary()
	}
	if err != nil {
		return e, err
	}
	if e.network = definition.Network; e.network != "" {
		return e, nil
	}
	if n.Delegates == nil {
		return e, errors.New("this node's agent does not run other plugins (--delegates)")
	}
	e.resource = definition.Resource
	e.config, err = n.Delegates.configOf(request.Element.Name, definition.Config)
	return e, err
}

// definition reads a NetworkAttachmentDefinition. The error does not name it.
func (n *Networks) definition(ctx context.Context, name types.NamespacedName) (networks.Definition, error) {
	var nad nadv1.NetworkAttachmentDefinition
	if err := n.API.Get(ctx, name, &nad); apierrors.IsNotFound(err) {
		return networks.Definition{}, errors.New("the NetworkAttachmentDefinition does not exist")
	} else if err != nil {
		return networks.Definition{}, err
	}
	return networks.ParseDefinition(&nad)
}

// checkDefault returns an error if a pod names a definition for its interface eth0 that is not of the cluster network:
// eth0 of every pod is on the cluster network, where its services, probes and policies are.
func (n *Networks) checkDefault(ctx context.Context, pod *corev1.Pod) error {
	name, ok, err := networks.DefaultDefinition(pod.Annotations)
	if err != nil || !ok {
		return err
	}
	definition, err := n.definition(ctx, name)
	if err == nil && !definition.Cluster {
		err = fmt.Errorf("the definition is not of the cluster network, and eth0 is on no other: request it by the annotation %s",
			networks.Annotation)
	}
	if err != nil {
		return fmt.Errorf("annotation %s: %s: %w", networks.DefaultAnnotation, name, err)
	}
	return nil
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
	return n.Ports.AttachPort(ctx, sandbox, e.port(sandbox), e.Interface, attach.RecordedNetwork(e.network), e.Hash())
}

func (n *Networks) detachElement(ctx context.Context, sandbox attach.Sandbox, e element) error {
	if e.network == "" {
		return n.Delegates.remove(ctx, sandbox.ContainerID, e.Interface)
	}
	return n.Ports.DetachPort(ctx, e.port(sandbox), sandbox.ContainerID, e.Interface)
}
