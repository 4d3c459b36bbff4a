package secondary

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/weft-network/weft/pkg/agent/attach"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/nodeevents"
	"github.com/weft-network/weft/pkg/agent/podapi"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
)

// errBusy says that a request of the runtime has the pod's turn.
var errBusy = errors.New("a request of the runtime is under way for the pod")

// has is a secondary interface that a sandbox has.
type has struct {
	ifName, hash string
	attachment   *desired.Attachment // of an interface on a Network
	delegated    *record             // of an interface of another plugin
}

// sync gives a running pod the networks that it requests. The interface on the cluster network is never touched.
func (n *Networks) sync(ctx context.Context, port string) error {
	namespace, pod, _ := names.ParsePodPort(port)
	main, attached := n.Attachments.Get(port)
	binding, bound := n.Bindings.Find(port)
	if !attached || !bound || binding.Options[names.InterfaceVersion] != main.PodUID {
		n.note(port, "")
		return nil // its ADD, or its DEL, is to come
	}
	generation := binding.ExternalIDs[ovnexpr.NetworksKey]
	have, err := n.have(main.ContainerID)
	if err != nil || generation == "" && len(have) == 0 {
		return err
	}
	done, ok := n.Turns.Try(namespace, pod)
	if !ok {
		return errBusy
	}
	defer done()
	if now, ok := n.Attachments.Get(port); !ok || now.ContainerID != main.ContainerID {
		return nil // it was replaced meanwhile
	}
	sandbox := attach.Sandbox{Namespace: namespace, Pod: pod, UID: main.PodUID, ContainerID: main.ContainerID, NetNS: main.NetNS}
	object, err := podapi.Read(ctx, n.API, sandbox)
	if errors.Is(err, podapi.ErrReplaced) {
		return nil
	}
	if err != nil {
		return err
	}
	if generation != networks.Generation(object.Annotations) {
		return nil // the port's next change, which is on its way, comes back here
	}
	return n.plug(ctx, sandbox, object, have, generation)
}

// have lists the secondary interfaces of a sandbox.
func (n *Networks) have(containerID string) (all []has, err error) {
	for _, a := range n.Attachments.OnNetworks(containerID) {
		all = append(all, has{ifName: a.IfName, hash: a.Request, attachment: &a})
	}
	if n.Delegates == nil {
		return all, nil
	}
	records, err := n.Delegates.records(containerID)
	for _, r := range records {
		all = append(all, has{ifName: r.Interface, hash: r.Hash, delegated: &r})
	}
	return all, err
}

// plug detaches what leaves, and then attaches what comes. A failure holds nothing else up.
func (n *Networks) plug(ctx context.Context, sandbox attach.Sandbox, pod *corev1.Pod, have []has, generation string) error {
	wanted, err := networks.Parse(pod.Annotations, pod.Namespace)
	if err != nil { // what the pod has stays
		return n.reportFailures(ctx, pod, []error{err})
	}
	var failed []error
	for _, h := range slices.Backward(have) {
		if n.stays(h, wanted) {
			continue
		}
		if err := n.detach(ctx, h); err != nil {
			failed = append(failed, fmt.Errorf("interface %s is not detached: %w", h.ifName, err))
		}
	}
	waiting := false
	for _, request := range wanted {
		if slices.ContainsFunc(have, func(h has) bool { return h.ifName == request.Interface && n.stays(h, wanted) }) {
			continue
		}
		ready, err := n.plugOne(ctx, sandbox, request)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", request, err))
		}
		waiting = waiting || !ready
	}
	if ctx.Err() != nil { // the agent ends, and the next one finishes
		return ctx.Err()
	}
	published := n.publish(ctx, sandbox, pod, wanted)
	if err := errors.Join(n.reportFailures(ctx, pod, failed), published, errors.Join(failed...)); err != nil {
		return err
	}
	if !waiting {
		n.note(names.PodPort(names.DefaultNetwork, sandbox.Namespace, sandbox.Pod), generation)
	}
	return nil
}

// plugOne attaches one request. ready is false while the operator has not given the pod a port for it: the port's arrival comes back.
func (n *Networks) plugOne(ctx context.Context, sandbox attach.Sandbox, request networks.Request) (ready bool, err error) {
	e, err := n.resolve(ctx, request)
	if err != nil {
		return true, err
	}
	if len(request.DefaultRoute) > 0 {
		return true, errors.New("default-route: a running pod keeps its default route; request it when the pod is created")
	}
	if e.network != "" && !n.Ports.HasPort(sandbox, e.port(sandbox), e.Hash()) {
		return false, nil
	}
	return true, n.attach(ctx, sandbox, e)
}

// stays reports whether an interface is what the pod requests.
func (n *Networks) stays(h has, wanted []networks.Request) bool {
	i := slices.IndexFunc(wanted, func(r networks.Request) bool { return r.Interface == h.ifName })
	switch {
	case i < 0 || wanted[i].Hash() != h.hash:
		return false
	case h.attachment != nil:
		return !n.Ports.Differs(*h.attachment)
	}
	return h.delegated.Done // an ADD that a crash cut off is undone and made again
}

func (n *Networks) detach(ctx context.Context, h has) error {
	if h.attachment != nil {
		return n.Ports.UnplugPort(ctx, h.attachment.InterfaceID, h.attachment.ContainerID, h.ifName)
	}
	return n.Delegates.remove(ctx, h.delegated.Sandbox.ContainerID, h.ifName)
}

// event records a failure on the pod.
func (n *Networks) event(pod *corev1.Pod, why error) {
	n.Events.Eventf(pod, nil, corev1.EventTypeWarning, "FailedNetworkAttachment", "AttachNetwork", "%s", nodeevents.Note(why))
}
