package facts

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// serviceEgress begins the name that a Service has among EgressIPs, whose names have no slash.
const serviceEgress = "service/"

// EgressNameOf returns the name of a Service among EgressIPs: "service/demo/web".
func EgressNameOf(namespace, name string) string { return serviceEgress + namespace + "/" + name }

// EgressService returns the Service of a name among EgressIPs, as "namespace/name"; ok is false for an EgressIP.
func EgressService(name string) (service string, ok bool) {
	return strings.CutPrefix(name, serviceEgress)
}

// EgressSource reports whether pods of a Service leave with its addresses. The error says why a request cannot be granted.
func EgressSource(s *corev1.Service) (granted bool, err error) {
	requested, err := networkv1alpha1.ParseEgressSource(s.Annotations)
	switch {
	case err != nil || !requested:
		return false, err
	case s.Spec.Type != corev1.ServiceTypeLoadBalancer:
		return false, fmt.Errorf("annotation %s: the service is not of type LoadBalancer", networkv1alpha1.EgressSourceAnnotation)
	case len(s.Spec.Selector) == 0:
		return false, fmt.Errorf("annotation %s: the service has no selector", networkv1alpha1.EgressSourceAnnotation)
	}
	return true, nil
}

// SelectEgress returns the name of what gives pods with the given labels their source outside: an EgressIP, or else a Service of their
// namespace with EgressSource, the oldest and then the first by name. It is empty if nothing does.
func SelectEgress(all []networkv1alpha1.EgressIP, services []corev1.Service, namespace string, ofNamespace, pod labels.Set) string {
	if name := SelectEgressIP(all, ofNamespace, pod); name != "" {
		return name
	}
	var chosen *corev1.Service
	for i := range services {
		s := &services[i]
		if granted, err := EgressSource(s); err != nil || !granted || s.Namespace != namespace ||
			!labels.SelectorFromSet(s.Spec.Selector).Matches(pod) {
			continue
		}
		older := chosen != nil && s.CreationTimestamp.Before(&chosen.CreationTimestamp)
		if chosen == nil || older || s.CreationTimestamp.Equal(&chosen.CreationTimestamp) && s.Name < chosen.Name {
			chosen = s
		}
	}
	if chosen == nil {
		return ""
	}
	return EgressNameOf(chosen.Namespace, chosen.Name)
}

// Leaving reports whether a Service is the source of its pods outside.
func Leaving(services []corev1.Service) bool {
	return slices.ContainsFunc(services, func(s corev1.Service) bool {
		granted, err := EgressSource(&s)
		return err == nil && granted
	})
}

// ParseEgressService reads a Service with EgressSource. refused says why packets must not leave with an address. announced has the node
// that answers for each address of LoadBalancerPools, and gateways, by node, how to reach it. The error names the refused addresses, and
// the addresses for which no node answers.
func ParseEgressService(s *corev1.Service, refused, announced map[netip.Addr]string, gateways map[string]Gateway) (
	facts EgressIP, err error) {
	facts.Name = EgressNameOf(s.Namespace, s.Name)
	for _, ingress := range s.Status.LoadBalancer.Ingress {
		address, parseErr := netip.ParseAddr(ingress.IP)
		if parseErr != nil {
			continue // a host name
		}
		if why := refused[address]; why != "" {
			err = errors.Join(err, errors.New(why))
			continue
		}
		facts.Addresses = append(facts.Addresses, address)
		g, known := gateways[announced[address]]
		if g.Leaving = true; !known || !g.HasRouter() && !g.HasEgressRouter() {
			err = errors.Join(err, fmt.Errorf("no node answers for %s", address))
			continue
		}
		facts.Carried = append(facts.Carried, g.carry(address))
	}
	if len(facts.Addresses) == 0 && err == nil {
		err = errors.New("the service has no address yet")
	}
	return facts, err
}
