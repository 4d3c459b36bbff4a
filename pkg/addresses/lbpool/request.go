package lbpool

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Port is a port of a Service.
type Port struct {
	Protocol corev1.Protocol
	Number   int32
}

// Request is what a Service of type LoadBalancer requests.
type Request struct {
	// Name is the namespace and the name with a slash between.
	Name                    string
	Created                 time.Time
	Class                   string
	Labels, NamespaceLabels labels.Set
	// IPv4 and IPv6 are the families of the Service. Every means that it must get an address of each.
	IPv4, IPv6, Every bool
	// Addresses are the requested addresses, Pool the requested pool. Both may be empty.
	Addresses []netip.Addr
	Pool      string
	Sharing   Sharing
}

// Sharing says with which other Services a Service may share an address.
type Sharing struct {
	Namespace string
	// Namespaces are the other namespaces that the Service allows. networkv1alpha1.EveryNamespace stands for all.
	Namespaces []string

	Key   string
	Ports []Port
	// Local means that externalTrafficPolicy is Local. Pods selects the Service's pods.
	Local bool
	Pods  map[string]string
}

// of is Use.Of of the Service.
func (r Request) of() string { return "service " + r.Name }

// precedes reports whether a Service keeps an address that another user has, too. The older Service does, then the first by name.
func (r Request) precedes(use Use) bool {
	if use.Younger || use.Created.IsZero() {
		return use.Younger
	}
	return cmp.Or(r.Created.Compare(use.Created), cmp.Compare(r.of(), use.Of)) < 0
}

// Wants reports whether a Service may request addresses of a LoadBalancerPool: its type is LoadBalancer, and its class
// is empty or begins with networkv1alpha1.LoadBalancerClassPrefix.
func Wants(s *corev1.Service) bool {
	class := s.Spec.LoadBalancerClass
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.DeletionTimestamp.IsZero() &&
		(class == nil || strings.HasPrefix(*class, networkv1alpha1.LoadBalancerClassPrefix))
}

// ParseRequest reads the request of a Service of type LoadBalancer. The error names the field or the annotation.
func ParseRequest(s *corev1.Service, namespace map[string]string) (Request, error) {
	r := Request{Name: s.Namespace + "/" + s.Name, Created: s.CreationTimestamp.Time,
		Labels: s.Labels, NamespaceLabels: namespace, Sharing: SharingOf(s)}
	if s.Spec.LoadBalancerClass != nil {
		r.Class = *s.Spec.LoadBalancerClass
	}
	r.IPv4, r.IPv6 = slices.Contains(s.Spec.IPFamilies, corev1.IPv4Protocol), slices.Contains(s.Spec.IPFamilies, corev1.IPv6Protocol)
	policy := s.Spec.IPFamilyPolicy
	r.Every = policy == nil || *policy != corev1.IPFamilyPolicyPreferDualStack
	_, r.Pool = annotationOf(s, networkv1alpha1.LoadBalancerPoolAnnotations)
	if _, err := networkv1alpha1.ParseSharedIPNamespaces(s.Annotations); err != nil {
		return r, err
	}
	source, text := annotationOf(s, networkv1alpha1.LoadBalancerIPsAnnotations)
	if text == "" {
		source, text = "spec.loadBalancerIP", s.Spec.LoadBalancerIP
	}
	if text == "" {
		return r, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		address, err := netip.ParseAddr(strings.TrimSpace(part))
		switch {
		case err != nil || address.Zone() != "" || address.Is4In6():
			return r, fmt.Errorf("%s: %q is not an IP address", source, strings.TrimSpace(part))
		case address.Is4() && !r.IPv4 || address.Is6() && !r.IPv6:
			return r, fmt.Errorf("%s: %s is of a family that spec.ipFamilies does not have", source, address)
		case slices.ContainsFunc(r.Addresses, func(a netip.Addr) bool { return a.Is4() == address.Is4() }):
			return r, fmt.Errorf("%s: %s is the second address of its family", source, address)
		}
		r.Addresses = append(r.Addresses, address)
	}
	return r, nil
}

// annotationOf returns the first of the annotations that a Service has, without its name's prefix "annotation ".
func annotationOf(s *corev1.Service, names []string) (source, value string) {
	for _, name := range names {
		if value := strings.TrimSpace(s.Annotations[name]); value != "" {
			return "annotation " + name, value
		}
	}
	return "", ""
}

// SharingOf returns with which other Services a Service may share an address. It allows no other namespace if its list cannot be read.
func SharingOf(s *corev1.Service) Sharing {
	_, key := annotationOf(s, networkv1alpha1.AllowSharedIPAnnotations)
	namespaces, _ := networkv1alpha1.ParseSharedIPNamespaces(s.Annotations) // ParseRequest returns the error
	sharing := Sharing{Namespace: s.Namespace, Namespaces: namespaces, Key: key, Pods: s.Spec.Selector,
		Local: s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal}
	for _, p := range s.Spec.Ports {
		port := Port{p.Protocol, p.Port}
		if port.Protocol == "" {
			port.Protocol = corev1.ProtocolTCP
		}
		sharing.Ports = append(sharing.Ports, port)
	}
	return sharing
}

// Allows reports whether a Service may share an address with Services of a namespace, if they allow its own.
func (s Sharing) Allows(namespace string) bool {
	return s.Namespace == namespace || slices.Contains(s.Namespaces, namespace) ||
		slices.Contains(s.Namespaces, networkv1alpha1.EveryNamespace)
}

// across returns why the namespaces of two Services do not let them share an address: the Service itself, and the user of the address. It
// is empty if they do.
func (s Sharing) across(use Use) string {
	const annotation = networkv1alpha1.SharedIPNamespacesAnnotation
	switch {
	case !use.Exclusive && s.Local && s.Namespace != use.Namespace:
		return "with externalTrafficPolicy Local both must be of one namespace, because the node that answers must have endpoints of both"
	case use.Exclusive || s.Allows(use.Namespace) && use.Allows(s.Namespace):
		return ""
	case s.Allows(use.Namespace):
		return fmt.Sprintf("%s does not allow namespace %s by annotation %s", use.Of, s.Namespace, annotation)
	}
	return fmt.Sprintf("the Service does not allow namespace %s by annotation %s", use.Namespace, annotation)
}

// With returns why two Services cannot share an address, whatever their namespaces are. It is empty if they can.
func (s Sharing) With(o Sharing) string {
	if s.Key == "" || s.Key != o.Key {
		return "the annotation " + networkv1alpha1.AllowSharedIPAnnotation + " has not the same value on both"
	}
	for _, p := range s.Ports {
		if slices.Contains(o.Ports, p) {
			return fmt.Sprintf("both have port %d/%s", p.Number, p.Protocol)
		}
	}
	// The node that answers must have endpoints of both.
	if (s.Local || o.Local) && (s.Local != o.Local || !maps.Equal(s.Pods, o.Pods)) {
		return "with externalTrafficPolicy Local both must have it, and the same selector"
	}
	return ""
}

// families lists the families of the request, IPv4 first: true for IPv4.
func (r Request) families() (all []bool) {
	if r.IPv4 {
		all = append(all, true)
	}
	if r.IPv6 {
		all = append(all, false)
	}
	return all
}
