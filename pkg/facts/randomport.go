package facts

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// WantsRandomHostPorts reports whether a pod has an annotation that requests random host ports.
func WantsRandomHostPorts(pod *corev1.Pod) bool {
	_, ours := pod.Annotations[networkv1alpha1.RandomHostPortsAnnotation]
	_, galaxy := pod.Annotations[networkv1alpha1.GalaxyPortMappingAnnotation]
	return (ours || galaxy) && !pod.Spec.HostNetwork
}

// RandomHostPorts returns the ports of a pod's containers that get random host ports, in the order of the containers
// and without duplicates. Their Port is 0. The error names the annotation, the element and the reason.
func RandomHostPorts(pod *corev1.Pod) (wanted []HostPort, err error) {
	if !WantsRandomHostPorts(pod) {
		return nil, nil
	}
	text, ours := pod.Annotations[networkv1alpha1.RandomHostPortsAnnotation]
	switch {
	case !ours || text == "true":
		return eachPort(pod, func(p corev1.ContainerPort) bool { return p.HostPort == 0 }), nil
	case text == "false":
		return nil, nil
	}
	var elements []string
	if err := json.Unmarshal([]byte(text), &elements); err != nil {
		return nil, fmt.Errorf(`annotation %s: %q is neither "true", "false" nor a JSON list of ports, such as ["http", "53/UDP"]`,
			networkv1alpha1.RandomHostPortsAnnotation, text)
	}
	for _, element := range elements {
		if err := checkElement(pod, element); err != nil {
			return nil, fmt.Errorf("annotation %s: element %q: %w", networkv1alpha1.RandomHostPortsAnnotation, element, err)
		}
	}
	return eachPort(pod, func(p corev1.ContainerPort) bool {
		return slices.ContainsFunc(elements, func(e string) bool { return selects(e, p) })
	}), nil
}

// checkElement returns why an element names no port that can have a random host port.
func checkElement(pod *corev1.Pod, element string) error {
	found := false
	for container := range Containers(pod) {
		for _, p := range container.Ports {
			if !selects(element, p) {
				continue
			}
			if found = true; p.HostPort != 0 {
				return fmt.Errorf("port %s of container %s has the hostPort %d",
					NodePort(p.Protocol, uint16(p.ContainerPort)), container.Name, p.HostPort)
			}
		}
	}
	if !found {
		return errors.New("no container of the pod has this port in its ports")
	}
	return nil
}

// selects reports whether an element is a port's name, its number, or its number and protocol: "http", "53", "53/UDP".
func selects(element string, p corev1.ContainerPort) bool {
	number := strconv.Itoa(int(p.ContainerPort))
	return element != "" && element == p.Name || element == number || element == number+"/"+string(protocolOf(p))
}

// eachPort returns the ports of the pod's containers that selected selects.
func eachPort(pod *corev1.Pod, selected func(corev1.ContainerPort) bool) (found []HostPort) {
	for container := range Containers(pod) {
		for _, p := range container.Ports {
			port := HostPort{Protocol: protocolOf(p), Target: uint16(p.ContainerPort), Random: true}
			if selected(p) && !slices.Contains(found, port) {
				found = append(found, port)
			}
		}
	}
	return found
}

func protocolOf(p corev1.ContainerPort) corev1.Protocol {
	if p.Protocol == "" {
		return corev1.ProtocolTCP
	}
	return p.Protocol
}

// givenHostPorts returns the random host ports that the agent of the pod's node gave the pod and that the pod still
// requests. A request that cannot be read has none.
func givenHostPorts(pod *corev1.Pod) (given []HostPort, problems []string) {
	wanted, err := RandomHostPorts(pod)
	if err != nil {
		return nil, []string{err.Error()}
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	ports, err := networkv1alpha1.ParseHostPorts(pod.Annotations[networkv1alpha1.HostPortsAnnotation])
	if err != nil {
		return nil, []string{err.Error()}
	}
	for _, port := range wanted {
		for _, p := range ports {
			if strings.EqualFold(string(p.Protocol), string(port.Protocol)) && p.ContainerPort == port.Target && p.HostPort != 0 {
				port.Port = p.HostPort
				given = append(given, port)
				break
			}
		}
	}
	return given, nil
}
