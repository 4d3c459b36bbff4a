package secondary

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	types100 "github.com/containernetworking/cni/pkg/types/100"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nadutils "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/utils"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent/attach"
	"github.com/weft-network/weft/pkg/agent/desired"
	"github.com/weft-network/weft/pkg/agent/podapi"
	"github.com/weft-network/weft/pkg/networks"
	"github.com/weft-network/weft/pkg/ovn/names"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/podcondition"
)

// finished writes network-status after an ADD. What fails is tried again as for a running pod.
func (n *Networks) finished(ctx context.Context, sandbox attach.Sandbox, pod *corev1.Pod) {
	port := names.PodPort(names.DefaultNetwork, sandbox.Namespace, sandbox.Pod)
	wanted, _ := networks.Parse(pod.Annotations, pod.Namespace) // it was parsed before
	err := n.publish(ctx, sandbox, pod, wanted)
	if err == nil {
		err = n.reportFailures(ctx, pod, nil)
	}
	if err != nil {
		n.queue.AddRateLimited(port)
		return
	}
	n.note(port, networks.Generation(pod.Annotations))
}

// publish writes the annotation network-status if it differs from what the sandbox has.
func (n *Networks) publish(ctx context.Context, sandbox attach.Sandbox, pod *corev1.Pod, wanted []networks.Request) error {
	status, err := n.status(sandbox, wanted)
	if err != nil {
		return err
	}
	text, err := json.Marshal(status)
	if err != nil || pod.Annotations[nadv1.NetworkStatusAnnot] == string(text) {
		return err
	}
	patched := pod.DeepCopy()
	metav1.SetMetaDataAnnotation(&patched.ObjectMeta, nadv1.NetworkStatusAnnot, string(text))
	return n.patch(ctx, pod, patched)
}

// patch writes a pod's status and, with it, its annotations. A pod that does not exist any more needs neither.
func (n *Networks) patch(ctx context.Context, pod, patched *corev1.Pod) error {
	err := podapi.Patch(ctx, n.API, pod, patched)
	if errors.Is(err, podapi.ErrReplaced) {
		return nil
	}
	return err
}

// status lists the interfaces of a sandbox, that on the cluster network first.
func (n *Networks) status(sandbox attach.Sandbox, wanted []networks.Request) (all []nadv1.NetworkStatus, err error) {
	port := names.PodPort(names.DefaultNetwork, sandbox.Namespace, sandbox.Pod)
	if main, ok := n.Attachments.Get(port); ok {
		all = append(all, n.statusOf(main, main.Network, true))
	}
	have, err := n.have(sandbox.ContainerID)
	if err != nil {
		return nil, err
	}
	for _, request := range wanted {
		i := slices.IndexFunc(have, func(h has) bool { return h.ifName == request.Interface && h.hash == request.Hash() })
		if i < 0 {
			continue
		}
		name := request.Definition().String()
		if h := have[i]; h.attachment != nil {
			all = append(all, n.statusOf(*h.attachment, name, false))
		} else if h.delegated.Done {
			delegated, err := h.delegated.status(name)
			if err != nil {
				return nil, err
			}
			all = append(all, delegated...)
		}
	}
	return all, nil
}

// statusOf describes an interface of Weft.
func (n *Networks) statusOf(a desired.Attachment, name string, isDefault bool) nadv1.NetworkStatus {
	s := nadv1.NetworkStatus{Name: name, Interface: a.IfName, Mac: a.MAC, Mtu: a.MTU, Default: isDefault, IPs: []string{}}
	for _, address := range a.Addresses {
		s.IPs = append(s.IPs, address.String())
	}
	if s.Mtu == 0 {
		s.Mtu = n.MTU()
	}
	if binding, ok := n.Bindings.Find(a.InterfaceID); ok {
		if attachment, ok, err := ovnexpr.ParseAttachment(binding.ExternalIDs); ok && err == nil {
			for _, gateway := range attachment.Gateways {
				s.Gateway = append(s.Gateway, gateway.String())
			}
		}
	}
	return s
}

// status describes the interfaces that another plugin made.
func (r *record) status(name string) (all []nadv1.NetworkStatus, err error) {
	result, err := types100.NewResult(r.Result)
	if err != nil {
		return nil, err
	}
	made, err := nadutils.CreateNetworkStatuses(result, name, false, r.Device)
	for _, s := range made {
		if s != nil {
			all = append(all, *s)
		}
	}
	return all, err
}

// reportFailures writes the condition PodNetworksAttached, with an event, if something failed or did before.
func (n *Networks) reportFailures(ctx context.Context, pod *corev1.Pod, failed []error) error {
	var texts []string
	for _, why := range failed {
		texts = append(texts, why.Error())
	}
	want, ok := podcondition.OfFailures(pod, networkv1alpha1.PodNetworksAttached, networkv1alpha1.ReasonNotAttached,
		strings.Join(texts, "; "))
	if !ok {
		return nil
	}
	if len(failed) > 0 {
		n.event(pod, errors.Join(failed...))
	}
	patched := pod.DeepCopy()
	podcondition.Set(&patched.Status, want)
	return n.patch(ctx, pod, patched)
}
