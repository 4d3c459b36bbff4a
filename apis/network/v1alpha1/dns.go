package v1alpha1

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// DNS is the cluster's name resolution as pods with dnsPolicy ClusterFirst have it.
//
// +kubebuilder:validation:XValidation:rule="!has(self.domain) || has(self.nameservers)",message="dns.domain needs dns.nameservers",reason=FieldValueInvalid
type DNS struct {
	// nameservers are usually the addresses of the cluster's DNS Service.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	Nameservers []IP `json:"nameservers,omitempty"`
	// domain is the cluster's, "cluster.local": pods search NAMESPACE.svc.DOMAIN, svc.DOMAIN and DOMAIN.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Domain string `json:"domain,omitempty"`
}

// PodDNS is what one pod resolves names with, as in resolv.conf.
//
// +kubebuilder:object:generate=false
type PodDNS struct {
	Nameservers []netip.Addr `json:"nameservers,omitempty"`
	Searches    []string     `json:"searches,omitempty"`
	Options     []string     `json:"options,omitempty"`
}

// clusterOptions are kubelet's for ClusterFirst: a name with fewer dots is searched first.
const clusterOptions = "ndots:5"

// ForNamespace is what a pod with dnsPolicy ClusterFirst and no dnsConfig has; nil if the cluster's name servers are not told.
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

// ForPod is what a pod has by its dnsPolicy and dnsConfig; nil if that is not known here: with dnsPolicy Default it is the node's.
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

// with appends what a pod asks for itself, as kubelet does: an option takes the place of one of its name.
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
