package pod

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/ovn/names"
)

// record writes the VIF record to the pod if it was requested. It runs after the port is written, and nothing waits
// for it.
func (r *Reconciler) record(ctx context.Context, pod *corev1.Pod, nn *networkv1alpha1.NodeNetwork, got alloc.Assignment) error {
	wanted, err := r.recordWanted(ctx, pod)
	if err != nil || !wanted || nn.Spec.MTU == 0 {
		return err
	}
	text, err := vif(pod, nn, got)
	if err != nil {
		return fmt.Errorf("pod %s: %w", client.ObjectKeyFromObject(pod), err)
	}
	if pod.Annotations[networkv1alpha1.PodNetworksAnnotation] == text {
		return nil
	}
	patched := pod.DeepCopy()
	metav1.SetMetaDataAnnotation(&patched.ObjectMeta, networkv1alpha1.PodNetworksAnnotation, text)
	// The resource version makes the patch fail on a pod that was recreated under this name.
	patch := client.MergeFromWithOptions(pod, client.MergeFromWithOptimisticLock{})
	return client.IgnoreNotFound(r.Client.Patch(ctx, patched, patch))
}

// recordWanted reports whether the pod, its namespace or the ClusterNetwork requests the record.
func (r *Reconciler) recordWanted(ctx context.Context, pod *corev1.Pod) (bool, error) {
	if pod.Annotations[networkv1alpha1.PodRecordAnnotation] == "true" {
		return true, nil
	}
	namespace, err := r.namespace(ctx, pod.Namespace)
	if err == nil && namespace.Annotations[networkv1alpha1.PodRecordAnnotation] == "true" {
		return true, nil
	}
	var cn networkv1alpha1.ClusterNetwork
	// it is only read
	err = r.Client.Get(ctx, types.NamespacedName{Name: networkv1alpha1.ClusterNetworkName}, &cn, client.UnsafeDisableDeepCopy)
	return err == nil && cn.Spec.PodRecord == networkv1alpha1.PodRecordAlways, client.IgnoreNotFound(err)
}

// vif returns the pod's VIF record.
func vif(pod *corev1.Pod, nn *networkv1alpha1.NodeNetwork, got alloc.Assignment) (string, error) {
	dns, err := nn.Spec.DNS.ForPod(pod)
	if err != nil {
		return "", err
	}
	network := networkv1alpha1.PodNetwork{
		Name: names.DefaultNetwork, Default: true, Interface: networkv1alpha1.DefaultInterfaceName,
		InterfaceID: names.PodPort(names.DefaultNetwork, pod.Namespace, pod.Name), PodUID: types.UID(networkv1alpha1.InterfaceUID(pod)),
		MACAddress: got.MAC.String(), Addresses: got.Addresses, MTU: int(nn.Spec.MTU), DNS: dns,
	}
	if network.Gateways, err = gatewaysOf(nn.Spec, got); err != nil {
		return "", err
	}
	return networkv1alpha1.MarshalPodNetworks([]networkv1alpha1.PodNetwork{network})
}

// gatewaysOf returns the gateways of the node's subnets that have an address of the pod, and for floating addresses the
// node's first gateway of their family.
func gatewaysOf(spec networkv1alpha1.NodeNetworkSpec, got alloc.Assignment) (gateways []netip.Addr, err error) {
	families := map[bool]bool{} // is IPv4 -> the pod's addresses are floating, and have a gateway if true
	for _, address := range got.Floating {
		families[address.Is4()] = false
	}
	for i, subnet := range spec.PodSubnets {
		prefix, err := subnet.Prefix()
		if err != nil {
			return nil, err
		}
		done, floating := families[prefix.Addr().Is4()]
		has := slices.ContainsFunc(got.Addresses, func(a netip.Prefix) bool { return prefix.Contains(a.Addr()) })
		if i >= len(spec.Gateways) || !has && (!floating || done) {
			continue
		}
		gateway, err := spec.Gateways[i].Addr()
		if err != nil {
			return nil, err
		}
		gateways = append(gateways, gateway)
		if floating {
			families[prefix.Addr().Is4()] = true
		}
	}
	return gateways, nil
}
