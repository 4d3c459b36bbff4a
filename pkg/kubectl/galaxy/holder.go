package galaxy

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// convert adds the FloatingIP of an address, if somebody has it or nobody may.
func (c *conversion) convert(a address) {
	f := networkv1alpha1.FloatingIP{TypeMeta: metav1.TypeMeta{APIVersion: networkv1alpha1.GroupVersion.String(), Kind: "FloatingIP"},
		ObjectMeta: metav1.ObjectMeta{Name: networkv1alpha1.FloatingIPName(a.address),
			Labels: map[string]string{networkv1alpha1.PoolLabel: c.pools[a.address]}}}
	f.Spec.Address, f.Spec.Pool = networkv1alpha1.EgressAddress(a.address.String()), c.pools[a.address]
	switch {
	case a.reserved || a.other != "":
		f.Labels[networkv1alpha1.ReservedLabel] = reservedFor(a)
		if !a.reserved {
			c.note("FloatingIP %s: key %q names no Deployment, StatefulSet or TApp: it is reserved, so that nobody gets it",
				a.address, a.other)
		}
	case a.workload.Kind == "":
		// The address is free within its pool.
	default:
		if f.Spec.Holder = c.holderOf(a); f.Spec.Holder == nil {
			return
		}
	}
	c.FloatingIPs = append(c.FloatingIPs, f)
}

// reservedFor returns the value of the label of a reserved address: what Galaxy's key says, if it can be a label.
func reservedFor(a address) string {
	for _, text := range []string{a.pool, strings.Trim(a.other, "_")} {
		if text != "" && len(validation.IsValidLabelValue(text)) == 0 {
			return text
		}
	}
	return ""
}

// holderOf returns the holder of an address; nil if the address is free.
func (c *conversion) holderOf(a address) *networkv1alpha1.FloatingIPHolder {
	uid, exists := c.cluster.Workloads[a.workload]
	policy := a.policy
	if a.pool != "" && !a.workload.NamesPods() {
		policy = networkv1alpha1.ReleaseWithPod // the IPPool keeps the address, for all its workloads
	}
	h := &networkv1alpha1.FloatingIPHolder{APIVersion: a.workload.APIVersion, Kind: a.workload.Kind, Namespace: a.workload.Namespace,
		Name: a.workload.Name, UID: uid, ReleasePolicy: policy, Since: metav1.NewTime(a.since)}
	if a.since.IsZero() {
		h.Since = metav1.NewTime(c.target.Now)
	}
	pod := c.cluster.Pods[types.NamespacedName{Namespace: a.workload.Namespace, Name: a.pod}]
	switch {
	case pod != nil && (a.podUID == "" || a.podUID == pod.UID):
		h.Pod, h.PodUID, h.Node = pod.Name, pod.UID, pod.Spec.NodeName
	case policy == networkv1alpha1.ReleaseWithPod:
		c.note("FloatingIP %s: its pod %s/%s does not exist: it is free", a.address, a.workload.Namespace, a.pod)
		return nil
	case policy == networkv1alpha1.ReleaseImmutable && !exists:
		c.note("FloatingIP %s: %s does not exist: it is free", a.address, a.workload)
		return nil
	case a.workload.NamesPods():
		h.Pod = a.pod
	}
	if h.Pod != "" {
		key := a.workload.String() + " " + h.Pod
		h.Index = c.index[key]
		c.index[key]++
	}
	return h
}
