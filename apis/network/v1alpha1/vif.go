package v1alpha1

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// PodNetworksAnnotation holds the VIF record of a pod: PodNetworks as JSON. The operator writes it.
	PodNetworksAnnotation = GroupName + "/pod-networks"
	// PodRecordAnnotation with the value "true" requests the VIF record of a pod under PodRecordOnRequest.
	PodRecordAnnotation = GroupName + "/pod-record"
)

const (
	// PodNetworksVersion is the version of the VIF record. New fields keep the version; a change of meaning needs a
	// new one.
	PodNetworksVersion = "v1"
	// DefaultInterfaceName is the pod's interface on its default network.
	DefaultInterfaceName = "eth0"
)

// PodNetworks is the VIF record: a pod's interfaces.
//
// +kubebuilder:object:generate=false
type PodNetworks struct {
	Version  string       `json:"version"`
	Networks []PodNetwork `json:"networks"`
}

// PodNetwork is an interface of a pod on a named network.
//
// +kubebuilder:object:generate=false
type PodNetwork struct {
	// Name is the name of the network; "default" is the cluster's network.
	Name string `json:"name"`
	// Default is true for the network of the pod's default routes. It is true for exactly one network.
	Default bool `json:"default,omitempty"`
	// Interface is the name of the link in the pod.
	Interface string `json:"interface"`
	// InterfaceID is the name of the Logical_Switch_Port, and the iface-id of the Open vSwitch Interface.
	InterfaceID string `json:"interfaceID"`
	// PodUID distinguishes this pod from an earlier pod of the same name. For a static pod it is kubelet's own UID.
	PodUID     types.UID `json:"podUID"`
	MACAddress string    `json:"macAddress"`
	// Addresses include the prefix length of their subnet. There is at least one.
	Addresses []netip.Prefix `json:"addresses"`
	// Gateways are the next hops of the default routes, at most one per family.
	Gateways []netip.Addr `json:"gateways,omitempty"`
	Routes   []PodRoute   `json:"routes,omitempty"`
	// MTU is in bytes.
	MTU int `json:"mtu"`
	// DNS is the pod's DNS configuration. It is absent if it is unknown: with dnsPolicy Default, and if
	// ClusterNetwork.spec.dns is empty.
	DNS *PodDNS `json:"dns,omitempty"`
}

// PodRoute is an additional route of a pod.
//
// +kubebuilder:object:generate=false
type PodRoute struct {
	Destination netip.Prefix `json:"destination"`
	Gateway     netip.Addr   `json:"gateway"`
}

// MarshalPodNetworks returns the VIF record in the current version. It returns an error for a record that
// ParsePodNetworks would refuse.
func MarshalPodNetworks(networks []PodNetwork) (string, error) {
	if err := validatePodNetworks(networks); err != nil {
		return "", fmt.Errorf("VIF record: %w", err)
	}
	text, err := json.Marshal(PodNetworks{Version: PodNetworksVersion, Networks: networks})
	if err != nil {
		return "", fmt.Errorf("VIF record: %w", err)
	}
	return string(text), nil
}

// ParsePodNetworks parses a VIF record. It ignores unknown fields and refuses an unknown version.
func ParsePodNetworks(text string) ([]PodNetwork, error) {
	var version struct {
		Version string `json:"version"`
	}
	// The version is checked first, because other versions may have an incompatible structure.
	if err := json.Unmarshal([]byte(text), &version); err != nil {
		return nil, fmt.Errorf("VIF record: %w", err)
	}
	if version.Version != PodNetworksVersion {
		return nil, fmt.Errorf("VIF record: version %q is not %q", version.Version, PodNetworksVersion)
	}
	var record PodNetworks
	if err := json.Unmarshal([]byte(text), &record); err != nil {
		return nil, fmt.Errorf("VIF record: %w", err)
	}
	if err := validatePodNetworks(record.Networks); err != nil {
		return nil, fmt.Errorf("VIF record: %w", err)
	}
	return record.Networks, nil
}

func validatePodNetworks(networks []PodNetwork) error {
	if len(networks) == 0 {
		return errors.New("networks is empty")
	}
	defaults := 0
	byInterface := map[string]string{} // interface -> network
	for i, network := range networks {
		if err := network.validate(); err != nil {
			return fmt.Errorf("networks[%d] %q: %w", i, network.Name, err)
		}
		if other, taken := byInterface[network.Interface]; taken {
			return fmt.Errorf("interface %s belongs to both network %q and network %q", network.Interface, other, network.Name)
		}
		byInterface[network.Interface] = network.Name
		if network.Default {
			defaults++
		}
	}
	if defaults != 1 {
		return fmt.Errorf("%d networks are marked as default, want 1", defaults)
	}
	return nil
}

func (n PodNetwork) validate() error {
	for _, field := range []struct{ name, value string }{
		{"name", n.Name}, {"interface", n.Interface}, {"interfaceID", n.InterfaceID}, {"podUID", string(n.PodUID)},
	} {
		if field.value == "" {
			return fmt.Errorf("%s is empty", field.name)
		}
	}
	if mac, err := net.ParseMAC(n.MACAddress); err != nil || len(mac) != ethernetLength {
		return fmt.Errorf("macAddress %q is not an Ethernet address", n.MACAddress)
	}
	if n.MTU <= 0 {
		return fmt.Errorf("mtu %d is not positive", n.MTU)
	}
	if n.DNS != nil {
		for i, server := range n.DNS.Nameservers {
			if !server.IsValid() {
				return fmt.Errorf("dns.nameservers[%d] is empty", i)
			}
		}
	}
	return n.validateAddresses()
}

func (n PodNetwork) validateAddresses() error {
	if len(n.Addresses) == 0 {
		return errors.New("addresses is empty")
	}
	// An empty JSON string decodes to the zero value without an error.
	for i, address := range n.Addresses {
		if !address.IsValid() {
			return fmt.Errorf("addresses[%d] is empty", i)
		}
	}
	for i, gateway := range n.Gateways {
		if !gateway.IsValid() {
			return fmt.Errorf("gateways[%d] is empty", i)
		}
	}
	for i, route := range n.Routes {
		if !route.Destination.IsValid() || !route.Gateway.IsValid() {
			return fmt.Errorf("routes[%d] needs a destination and a gateway", i)
		}
	}
	return nil
}

// InterfaceUID returns the pod's UID as in the CNI request. For a static pod it is the hash of its file, which the
// mirror pod in the API has in an annotation.
func InterfaceUID(pod *corev1.Pod) string {
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		if hash := pod.Annotations["kubernetes.io/config.hash"]; hash != "" {
			return hash
		}
	}
	return string(pod.UID)
}
