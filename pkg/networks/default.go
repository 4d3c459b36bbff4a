package networks

import (
	"errors"
	"fmt"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

const (
	// DefaultAnnotation is the annotation of a pod that names the definition of its interface eth0.
	DefaultAnnotation = "v1.multus-cni.io/default-network"
	// ClusterNetwork is the name of Weft's configuration on each node, and the CNI network of eth0.
	ClusterNetwork = "weft"
)

// DefaultDefinition returns the definition that a pod names for its interface eth0; ok is false without the annotation.
// A name without a namespace is of kube-system, as for Multus. The error names the annotation.
func DefaultDefinition(annotations map[string]string) (name types.NamespacedName, ok bool, err error) {
	text := strings.TrimSpace(annotations[DefaultAnnotation])
	if text == "" {
		return name, false, nil
	}
	elements, err := parseElements(text, metav1.NamespaceSystem)
	if err == nil && len(elements) != 1 {
		err = fmt.Errorf("%d definitions are named, and eth0 is one interface", len(elements))
	}
	var r Request
	if err == nil {
		r, err = parseElement(elements[0], 0)
	}
	if err == nil {
		err = onlyName(r)
	}
	if err != nil {
		return name, true, fmt.Errorf("annotation %s: %w", DefaultAnnotation, err)
	}
	return r.Definition(), true, nil
}

// onlyName returns an error if an element for eth0 requests more than a definition.
func onlyName(r Request) error {
	if e := r.Element; e.InterfaceRequest != "" && e.InterfaceRequest != networkv1alpha1.DefaultInterfaceName {
		return fmt.Errorf("interface %q: the cluster network's is %s", e.InterfaceRequest, networkv1alpha1.DefaultInterfaceName)
	}
	if len(r.Addresses) > 0 || r.MAC != nil {
		return fmt.Errorf("request ips and mac of eth0 by the annotations %s and %s",
			networkv1alpha1.RequestedIPsAnnotation, networkv1alpha1.RequestedMACAnnotation)
	}
	e := nadv1.NetworkSelectionElement{Name: r.Element.Name, Namespace: r.Element.Namespace}
	if (Request{Element: e, Interface: r.Interface}).Hash() != r.Hash() {
		return errors.New("a definition for eth0 has a name and a namespace, and no request besides")
	}
	return nil
}
