package v1alpha1

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// PodNetworksAnnotation holds the VIF record of a pod: PodNetworks as JSON, written by the operator.
	PodNetworksAnnotation = GroupName + "/pod-networks"
	// PodRecordAnnotation set to "true" asks for the VIF record of a pod under PodRecordOnRequest.
	PodRecordAnnotation = GroupName + "/pod-record"
)

const (
	// PodNetworksVersion is the version of the VIF record. Fields can be added to it; a change of meaning is a new one.
	PodNetworksVersion = "v1"
	// DefaultNetworkName is the name of the cluster's own network.
	DefaultNetworkName = "default"
	// DefaultInterfaceName is the pod's interface on its default network.
	DefaultInterfaceName = "eth0"
)

// PodNetworks is the VIF record: the interfaces that a pod has been given.
//
// +kubebuilder:object:generate=false
type PodNetworks struct {
	Version  string       `json:"version"`
	Networks []PodNetwork `json:"networks"`
}

// PodNetwork is one interface of a pod, on a named network.
//
// +kubebuilder:object:generate=false
type PodNetwork struct {
	// Name is the network, "default" for the cluster's.
	Name string `json:"name"`
	// Default is true for the network that has the pod's default routes; exactly one is.
	Default bool `json:"default,omitempty"`
	// Interface is the name of the link in the pod.
	Interface string `json:"interface"`
	// InterfaceID is the name of the Logical_Switch_Port, and the iface-id of the Open vSwitch Interface.
	InterfaceID string `json:"interfaceID"`
	// PodUID tells this pod from an earlier one of the same name. For a static pod it is the kubelet's own UID.
	PodUID     types.UID `json:"podUID"`
	MACAddress string    `json:"macAddress"`
	// Addresses with the prefix length of their subnet, at least one.
	Addresses []netip.Prefix `json:"addresses"`
	// Gateways are the next hops of the default routes, at most one per family.
	Gateways []netip.Addr `json:"gateways,omitempty"`
	Routes   []PodRoute   `json:"routes,omitempty"`
	// MTU in bytes.
	MTU int `json:"mtu"`
	// DNS is what the pod resolves names with; absent where that is not known: with dnsPolicy Default, and while ClusterNetwork.spec.dns is empty.
	DNS *PodDNS `json:"dns,omitempty"`
}

// PodRoute is a route of a pod besides the default ones.
//
// +kubebuilder:object:generate=false
type PodRoute struct {
	Destination netip.Prefix `json:"destination"`
	Gateway     netip.Addr   `json:"gateway"`
}

// MarshalPodNetworks renders the VIF record in the current version. It refuses a record that ParsePodNetworks would.
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

// ParsePodNetworks reads a VIF record. Fields that it does not know are ignored, an unknown version is refused.
func ParsePodNetworks(text string) ([]PodNetwork, error) {
	var version struct {
		Version string `json:"version"`
	}
	// The version comes first: the rest of another version may not even decode.
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
			return fmt.Errorf("interface %s is of both network %q and network %q", network.Interface, other, network.Name)
		}
		byInterface[network.Interface] = network.Name
		if network.Default {
			defaults++
		}
	}
	if defaults != 1 {
		return fmt.Errorf("%d networks are the default one, not 1", defaults)
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
