package networkport

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/networks"
)

// reasonNotRestored is the reason of the event of a pod that gets other addresses than its interface has.
const reasonNotRestored = "NetworkAddressNotRestored"

// restoreReported gives pods the addresses that they report for interfaces whose ports the database has lost. Only a node's agent, or
// Multus, may change the report of a running pod (config/policy/pods.yaml).
func (r *Reconciler) restoreReported(ctx context.Context, pods []corev1.Pod) error {
	for i := range pods {
		pod := &pods[i]
		// Before its sandbox exists, a pod may have the report with which its author created it.
		if !facts.WantsPort(pod) || len(pod.Status.PodIPs) == 0 {
			continue
		}
		if err := r.restoreReport(ctx, pod); err != nil {
			return err
		}
	}
	return nil
}

// restoreReport restores what one pod reports.
func (r *Reconciler) restoreReport(ctx context.Context, pod *corev1.Pod) error {
	reported, err := networks.ParseStatus(pod.Annotations)
	if err != nil || len(reported) == 0 {
		return nil // the agent of its node writes it again
	}
	wanted, err := networks.Parse(pod.Annotations, pod.Namespace)
	if err != nil {
		return nil // the pod's condition says so
	}
	name := client.ObjectKeyFromObject(pod)
	for _, request := range wanted {
		status, ok := reported[request.Interface]
		owner := alloc.AttachmentOwner(name, networkv1alpha1.InterfaceUID(pod), request.Interface, request.Hash())
		if _, has := r.holders.networkOf(name, owner); has || !ok || status.Name != request.Definition().String() {
			continue
		}
		network, err := r.networkOfReport(ctx, request)
		if err != nil {
			return err
		}
		if network == "" {
			continue
		}
		have := held{network: network, owner: owner}
		r.holders.keep(name, have)
		if err := r.reclaimReported(have, status); err != nil {
			ctrl.LoggerFrom(ctx).Info("reported address is not restored", "pod", name, "network", network, "reason", err.Error())
			r.Events.Eventf(pod, nil, corev1.EventTypeWarning, reasonNotRestored, "AllocateNetwork",
				"interface %s has %v of Network %s, and the pod gets other addresses: %v", request.Interface, status.IPs, network, err)
		}
	}
	return nil
}

// networkOfReport returns the Network on which a pod has the interface of a request; empty if it is another plugin's.
func (r *Reconciler) networkOfReport(ctx context.Context, request networks.Request) (string, error) {
	definition, err := r.definition(ctx, request.Definition())
	switch {
	case isRefusal(err):
		definition.Network = request.Element.Name // a definition that the operator made has the name of its Network
	case err != nil:
		return "", err
	}
	if definition.Network == "" {
		return "", nil
	}
	err = r.Client.Get(ctx, types.NamespacedName{Name: definition.Network}, &networkv1alpha1.Network{})
	if client.IgnoreNotFound(err) != nil {
		return "", err
	}
	if err != nil {
		return "", nil
	}
	return definition.Network, nil
}

// reclaimReported gives an attachment the addresses and MAC of a report.
func (r *Reconciler) reclaimReported(have held, status nadv1.NetworkStatus) error {
	mac, err := net.ParseMAC(status.Mac)
	if err != nil {
		return fmt.Errorf("mac: %w", err)
	}
	var has []netip.Addr
	for _, text := range status.IPs {
		address, err := networks.ParseAddress(text)
		if err != nil {
			return fmt.Errorf("ips: %w", err)
		}
		has = append(has, address.Addr())
	}
	return r.reclaim(have, has, mac, 0)
}
