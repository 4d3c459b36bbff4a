package v1alpha1

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	// RandomHostPortsAnnotation requests random host ports of a pod: "true" for every port of its containers without
	// a hostPort, or a JSON list of names and numbers of such ports: `["http", "53/UDP"]`.
	RandomHostPortsAnnotation = GroupName + "/random-host-ports"
	// HostPortsAnnotation has the random host ports that a pod got: a JSON list of HostPort. The agent of the pod's
	// node writes it before the pod's containers start.
	HostPortsAnnotation = GroupName + "/host-ports"
	// GalaxyPortMappingAnnotation requests random host ports as TKEStack Galaxy did, whatever its value. The agent
	// writes a JSON list of GalaxyPort into it, which Weft does not read.
	GalaxyPortMappingAnnotation = "tkestack.io/portmapping"
)

// DefaultHostPortRange has the random host ports if ClusterNetwork names no range. It is outside of the default range
// of node ports and of the kernel's range of ephemeral ports.
const DefaultHostPortRange PortRange = "20000-24999"

// PortRange is a range of ports, both ends included: "20000-24999".
//
// +kubebuilder:validation:MaxLength=11
// +kubebuilder:validation:XValidation:rule="self.matches('^[1-9][0-9]{3,4}-[1-9][0-9]{3,4}$') && int(self.split('-')[0]) >= 1024 && int(self.split('-')[1]) <= 65535 && int(self.split('-')[0]) <= int(self.split('-')[1])",message="a range of ports is FIRST-LAST, with 1024 <= FIRST <= LAST <= 65535",messageExpression="'\"' + self + '\" is not a range of ports: want FIRST-LAST, such as 20000-24999, with 1024 <= FIRST <= LAST <= 65535'",reason=FieldValueInvalid
type PortRange string

// Bounds returns the first and the last port.
func (r PortRange) Bounds() (first, last uint16, err error) {
	from, to, _ := strings.Cut(string(r), "-")
	a, errA := strconv.ParseUint(from, 10, 16)
	b, errB := strconv.ParseUint(to, 10, 16)
	if errA != nil || errB != nil || a == 0 || a > b {
		return 0, 0, fmt.Errorf("%q is not a range of ports: want FIRST-LAST", string(r))
	}
	return uint16(a), uint16(b), nil
}

// HostPorts configures the ports of nodes that pods get by the annotation network.weft.dev/random-host-ports.
type HostPorts struct {
	// range has the ports, both ends included. It must be outside of the default range of node ports, 30000-32767, and
	// should be outside of the API server's --service-node-port-range and of the nodes' net.ipv4.ip_local_port_range.
	// A change holds for pods that start later.
	// +optional
	// +kubebuilder:default="20000-24999"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[1-9][0-9]{3,4}-[1-9][0-9]{3,4}$') || int(self.split('-')[1]) < 30000 || int(self.split('-')[0]) > 32767",message="hostPorts.range must not overlap the node ports 30000-32767",messageExpression="'hostPorts.range ' + self + ' overlaps 30000-32767, the range of node ports'",reason=FieldValueInvalid
	Range PortRange `json:"range,omitempty"`
}

// HostPort is a port of a pod's node that leads to a port of the pod, at all addresses of the node.
//
// +kubebuilder:object:generate=false
type HostPort struct {
	Protocol      corev1.Protocol `json:"protocol"` // TCP, UDP or SCTP
	ContainerPort uint16          `json:"containerPort"`
	HostPort      uint16          `json:"hostPort"`
}

// ParseHostPorts parses the value of HostPortsAnnotation. The empty text has no host ports.
func ParseHostPorts(text string) (ports []HostPort, err error) {
	if text == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &ports); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", HostPortsAnnotation, err)
	}
	return ports, nil
}

// MarshalHostPorts returns the value of HostPortsAnnotation.
func MarshalHostPorts(ports []HostPort) (string, error) {
	text, err := json.Marshal(ports)
	return string(text), err
}

// GalaxyPort is an element of GalaxyPortMappingAnnotation, with the fields of TKEStack Galaxy in their order.
//
// +kubebuilder:object:generate=false
type GalaxyPort struct {
	HostPort      int32  `json:"hostPort"`
	ContainerPort int32  `json:"containerPort"`
	Protocol      string `json:"protocol"` // "TCP", "UDP" or "SCTP"
	HostIP        string `json:"hostIP,omitempty"`
	PodName       string `json:"podName"`
	PodIP         string `json:"podIP"` // the pod's first address
}
