package v1alpha1

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// DNS is the cluster's DNS configuration for pods with dnsPolicy ClusterFirst.
//
// +kubebuilder:validation:XValidation:rule="!has(self.domain) || has(self.nameservers)",message="dns.domain needs dns.nameservers",reason=FieldValueInvalid
type DNS struct {
	// nameservers are usually the addresses of the cluster's DNS Service.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	Nameservers []IP `json:"nameservers,omitempty"`
	// domain is the cluster's domain, "cluster.local". Pods search NAMESPACE.svc.DOMAIN, svc.DOMAIN and DOMAIN.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Domain string `json:"domain,omitempty"`
}

// PodDNS is a pod's DNS configuration, as in resolv.conf.
//
// +kubebuilder:object:generate=false
type PodDNS struct {
	Nameservers []netip.Addr `json:"nameservers,omitempty"`
	Searches    []string     `json:"searches,omitempty"`
	Options     []string     `json:"options,omitempty"`
}

// clusterOptions are kubelet's options for ClusterFirst: a name with fewer dots is searched first.
const clusterOptions = "ndots:5"

// ForNamespace returns the configuration of a pod with dnsPolicy ClusterFirst and without dnsConfig. It returns nil
// if d has no name servers.
func (d DNS) ForNamespace(namespace string) (*PodDNS, error) {
	if len(d.Nameservers) == 0 {
		return nil, nil
	}
	pod := &PodDNS{Options: []string{clusterOptions}}
	for _, ip := range d.Nameservers {
		address, err := ip.Addr()
		if err != nil {
			return nil, err
		}
		pod.Nameservers = append(pod.Nameservers, address)
	}
	if d.Domain != "" {
		pod.Searches = []string{namespace + ".svc." + d.Domain, "svc." + d.Domain, d.Domain}
	}
	return pod, nil
}

// ForPod returns the configuration according to the pod's dnsPolicy and dnsConfig. It returns nil if it is unknown
// here: with dnsPolicy Default a pod uses the node's configuration.
func (d DNS) ForPod(pod *corev1.Pod) (*PodDNS, error) {
	switch pod.Spec.DNSPolicy {
	case corev1.DNSDefault:
		return nil, nil
	case corev1.DNSNone:
		return (&PodDNS{}).with(pod.Spec.DNSConfig), nil
	}
	dns, err := d.ForNamespace(pod.Namespace)
	if dns == nil || err != nil {
		return nil, err
	}
	return dns.with(pod.Spec.DNSConfig), nil
}

// with appends a pod's own configuration, as kubelet does. An option replaces an earlier option of the same name.
func (p *PodDNS) with(config *corev1.PodDNSConfig) *PodDNS {
	if config == nil {
		return p
	}
	for _, text := range config.Nameservers {
		if address, err := netip.ParseAddr(text); err == nil && !slices.Contains(p.Nameservers, address) {
			p.Nameservers = append(p.Nameservers, address)
		}
	}
	for _, search := range config.Searches {
		if !slices.Contains(p.Searches, search) {
			p.Searches = append(p.Searches, search)
		}
	}
	for _, option := range config.Options {
		text := option.Name
		if option.Value != nil {
			text += ":" + *option.Value
		}
		p.Options = append(slices.DeleteFunc(p.Options, func(have string) bool {
			name, _, _ := strings.Cut(have, ":")
			return name == option.Name
		}), text)
	}
	return p
}
