package claim

import (
	"context"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Annotation renders addresses as FloatingIPsAnnotation has them.
func Annotation(addresses []netip.Addr) string {
	var texts []string
	for _, a := range addresses {
		texts = append(texts, a.String())
	}
	return strings.Join(texts, ",")
}

// Announced returns the addresses of a pod's FloatingIPsAnnotation, at most MaxFloatingIPs of each family. It leaves
// out what is no address, because users can write the annotation.
func Announced(pod *corev1.Pod) (addresses []netip.Addr) {
	for text := range strings.SplitSeq(pod.Annotations[networkv1alpha1.FloatingIPsAnnotation], ",") {
		if a, err := netip.ParseAddr(text); err == nil && len(addresses) < 2*networkv1alpha1.MaxFloatingIPs {
			addresses = append(addresses, a)
		}
	}
	return addresses
}

// recall reads the FloatingIPs that the extender claimed for a pod, unless the book has them. Without it a cache that
// is behind would lead to a second claim.
func (c *Claimer) recall(ctx context.Context, pod *corev1.Pod) error {
	for _, address := range Announced(pod) {
		if f := c.Book.Get(address); f != nil && f.Spec.Holder != nil && f.Spec.Holder.PodUID == pod.UID {
			continue
		}
		f := &networkv1alpha1.FloatingIP{}
		f.Name = networkv1alpha1.FloatingIPName(address)
		err := c.Live.Get(ctx, client.ObjectKeyFromObject(f), f)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		if err == nil {
			c.Book.Observe(f)
		}
	}
	return nil
}
