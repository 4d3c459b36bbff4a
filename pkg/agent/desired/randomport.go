package desired

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"iter"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/ovn/sbdb"
)

// NodePort is a port of the node.
type NodePort struct {
	Protocol string // "tcp", "udp", "sctp"
	Port     uint16
}

// String formats the port as users write it: "TCP/20017".
func (n NodePort) String() string { return fmt.Sprintf("%s/%d", strings.ToUpper(n.Protocol), n.Port) }

// HostPortRequest has the random host ports that a pod requests, and the host ports that the operator has mapped to the
// pod.
type HostPortRequest struct{ Wanted, Has []ovnexpr.HostPort }

// RandomHostPorts reads the random host ports that a pod's binding requests.
func RandomHostPorts(binding *sbdb.PortBinding) (r HostPortRequest, err error) {
	if r.Wanted, err = ovnexpr.ParseHostPorts(binding.ExternalIDs[ovnexpr.RandomHostPortsKey]); err != nil {
		return r, fmt.Errorf("Port_Binding %s: %w", binding.LogicalPort, err)
	}
	if r.Has, err = ovnexpr.ParseHostPorts(binding.ExternalIDs[ovnexpr.HostPortsKey]); err != nil {
		return r, fmt.Errorf("Port_Binding %s: %w", binding.LogicalPort, err)
	}
	return r, nil
}

// HostPortCandidates returns the ports to try for a requested port: first the port that the pod has, if it is in the
// range, and then each port of the range. The pod's UID selects where they begin, so that the next pod rarely gets the
// ports of a deleted pod.
func HostPortCandidates(r HostPortRequest, want ovnexpr.HostPort, uid string, first, last uint16) iter.Seq[uint16] {
	return func(yield func(uint16) bool) {
		for _, has := range r.Has {
			inRange := has.Port >= first && has.Port <= last
			if has.Protocol == want.Protocol && has.Target == want.Target && inRange && !yield(has.Port) {
				return
			}
		}
		hash := fnv.New32a()
		_, _ = fmt.Fprintf(hash, "%s %s %d", uid, want.Protocol, want.Target) // a hash returns no error
		size := uint32(last) - uint32(first) + 1
		for i := range size {
			if !yield(first + uint16((hash.Sum32()%size+i)%size)) {
				return
			}
		}
	}
}

// HostPortAnnotations returns the annotations that say which host ports a pod got. addresses are the pod's.
func HostPortAnnotations(pod *corev1.Pod, given []ovnexpr.HostPort, addresses []netip.Addr) (map[string]string, error) {
	ports := make([]networkv1alpha1.HostPort, 0, len(given))
	for _, g := range given {
		ports = append(ports, networkv1alpha1.HostPort{Protocol: corev1.Protocol(strings.ToUpper(g.Protocol)),
			ContainerPort: g.Target, HostPort: g.Port})
	}
	text, err := networkv1alpha1.MarshalHostPorts(ports)
	if err != nil {
		return nil, err
	}
	annotations := map[string]string{networkv1alpha1.HostPortsAnnotation: text}
	if _, ok := pod.Annotations[networkv1alpha1.GalaxyPortMappingAnnotation]; ok {
		text, err := json.Marshal(galaxyPorts(pod, given, addresses))
		if err != nil {
			return nil, err
		}
		annotations[networkv1alpha1.GalaxyPortMappingAnnotation] = string(text)
	}
	return annotations, nil
}

// galaxyPorts lists all host ports of a pod as TKEStack Galaxy does.
func galaxyPorts(pod *corev1.Pod, given []ovnexpr.HostPort, addresses []netip.Addr) []networkv1alpha1.GalaxyPort {
	found := []networkv1alpha1.GalaxyPort{}
	for container := range facts.Containers(pod) {
		for _, p := range container.Ports {
			port := networkv1alpha1.GalaxyPort{HostPort: p.HostPort, ContainerPort: p.ContainerPort,
				Protocol: string(p.Protocol), HostIP: p.HostIP, PodName: pod.Name}
			if len(addresses) > 0 {
				port.PodIP = addresses[0].String()
			}
			for _, g := range given {
				if p.HostPort == 0 && strings.EqualFold(g.Protocol, port.Protocol) && int32(g.Target) == p.ContainerPort {
					port.HostPort = int32(g.Port)
				}
			}
			if port.HostPort != 0 {
				found = append(found, port)
			}
		}
	}
	return found
}
