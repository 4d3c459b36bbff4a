package networks

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Plugin is the type of Weft's own plugin in a CNI configuration.
const Plugin = "weft-cni"

// ResourceAnnotation is the annotation of a definition that names the resource of a device plugin.
const ResourceAnnotation = "k8s.v1.cni.cncf.io/resourceName"

// Definition is what Weft reads of a NetworkAttachmentDefinition.
type Definition struct {
	// Network is the name of the Network that the definition attaches to; empty if another plugin serves it.
	Network string
	// Cluster: the definition is of the cluster network, which every pod has as its interface eth0.
	Cluster bool
	// Resource is the name of the resource of a device plugin that the definition takes a device of; empty: none.
	Resource string
	// Config is the CNI configuration.
	Config string
}

// config is the part of a CNI configuration, or of a list, that says who serves it.
type config struct {
	Type    string   `json:"type"`
	Network string   `json:"network"`
	Plugins []config `json:"plugins"`
}

// ParseDefinition reads a definition. The error names it, and what is wrong with its configuration. A definition that a Network controls
// attaches to that Network whatever its configuration says, because the operator reverts edits of it.
func ParseDefinition(nad *nadv1.NetworkAttachmentDefinition) (Definition, error) {
	d := Definition{Config: nad.Spec.Config, Resource: nad.Annotations[ResourceAnnotation]}
	if network := controllingNetwork(nad); network != "" {
		return Definition{Network: network, Config: ConfigOf(network)}, nil
	}
	if d.Config == "" {
		d.Cluster = nad.Name == ClusterNetwork
		return d, nil // the configuration is a file of the node, of the definition's name
	}
	var c config
	if err := json.Unmarshal([]byte(d.Config), &c); err != nil {
		return d, fmt.Errorf("NetworkAttachmentDefinition %s/%s: spec.config: %w", nad.Namespace, nad.Name, err)
	}
	plugins := c.Plugins
	if len(plugins) == 0 {
		plugins = []config{c}
	}
	for i, plugin := range plugins {
		switch {
		case plugin.Type == "":
			return d, fmt.Errorf("NetworkAttachmentDefinition %s/%s: spec.config: plugin %d has no type", nad.Namespace, nad.Name, i)
		case plugin.Type != Plugin:
		case i > 0:
			return d, fmt.Errorf("NetworkAttachmentDefinition %s/%s: spec.config: type %s comes first", nad.Namespace, nad.Name, Plugin)
		case len(plugins) > 1:
			return d, fmt.Errorf("NetworkAttachmentDefinition %s/%s: spec.config: no plugin can be chained behind %s",
				nad.Namespace, nad.Name, Plugin)
		default:
			d.Network, d.Cluster = plugin.Network, plugin.Network == ""
		}
	}
	return d, nil
}

// networkKind is the kind of the owner of a definition that the operator made.
const networkKind = "Network"

// controllingNetwork returns the name of the Network that controls a definition, or "".
func controllingNetwork(nad *nadv1.NetworkAttachmentDefinition) string {
	owner := metav1.GetControllerOf(nad)
	if owner == nil || owner.Kind != networkKind || !strings.HasPrefix(owner.APIVersion, networkv1alpha1.GroupName+"/") {
		return ""
	}
	return owner.Name
}

// Secondary returns an error if the definition cannot be requested beside the cluster network.
func (d Definition) Secondary() error {
	if d.Cluster {
		return errors.New("the definition is of the cluster network, which the pod has as eth0: " +
			"a definition of type " + Plugin + " for another interface needs \"network\", the name of a Network")
	}
	if d.Network != "" && d.Resource != "" {
		return fmt.Errorf("the definition has the annotation %s, and Network %s has no devices", ResourceAnnotation, d.Network)
	}
	return nil
}

// ConfigOf returns the CNI configuration of a Network's definition.
func ConfigOf(network string) string {
	return fmt.Sprintf(`{"cniVersion":"1.1.0","name":%q,"type":%q,"network":%q}`, network, Plugin, network)
}
