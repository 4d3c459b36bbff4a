package pod

import (
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating/claim"
	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/ipam/alloc"
	"github.com/weft-network/weft/pkg/networks"
)

// Errors of unreadable requests. A pod without an address waits without a port until its request changes.
var (
	errRequest   = errors.New("invalid request")
	errBandwidth = errors.New("invalid bandwidth")
	errHostPorts = errors.New("invalid random host ports")
)

// request is what a pod says of itself, read once for each reconciliation. An error stands beside the part that it concerns.
type request struct {
	// pod is only read.
	pod   *corev1.Pod
	name  types.NamespacedName
	owner alloc.Owner
	node  string
	// reported are the addresses in the pod's status.
	reported []netip.Addr

	addresses  alloc.Request
	addressErr error

	// pool is the IPPool from which it requests floating addresses, or "".
	pool    string
	poolErr error

	bandwidth    networkv1alpha1.Bandwidth
	bandwidthErr error

	// hostPorts are from its containers and annotations, and hostPortProblems says which of these are invalid.
	hostPorts, randomHostPorts []facts.HostPort
	hostPortProblems           []string
	randomHostPortsErr         error

	// networks is the generation of the Networks that it requests, or "". lacksNetworks means that it requests none that can be read.
	networks      string
	lacksNetworks bool
}

// read reads a pod.
func read(pod *corev1.Pod) request {
	p := request{pod: pod, name: client.ObjectKeyFromObject(pod), owner: ownerOf(pod), node: pod.Spec.NodeName, reported: addressesOf(pod)}
	p.addresses, p.addressErr = readAddresses(pod.Annotations)
	floating, requests, err := claim.Request(pod)
	if requests || err != nil {
		p.pool, p.poolErr = floating.Pool, err
	}
	p.bandwidth, p.bandwidthErr = networkv1alpha1.ParseBandwidth(pod.Annotations)
	p.hostPorts, p.hostPortProblems = facts.HostPorts(pod)
	p.randomHostPorts, p.randomHostPortsErr = facts.RandomHostPorts(pod)
	p.networks = networks.Generation(pod.Annotations)
	if requested, err := networks.Parse(pod.Annotations, pod.Namespace); err == nil { // package podports reports the error
		p.lacksNetworks = len(requested) == 0
	}
	return p
}

// readAddresses reads the addresses and the MAC that a pod requests.
func readAddresses(annotations map[string]string) (request alloc.Request, err error) {
	if text, ok := annotations[networkv1alpha1.RequestedIPsAnnotation]; ok {
		if request.Addresses, err = networkv1alpha1.ParseRequestedIPs(text); err != nil {
			return request, err
		}
	}
	if text, ok := annotations[networkv1alpha1.RequestedMACAnnotation]; ok {
		request.MAC, err = networkv1alpha1.ParseRequestedMAC(text)
	}
	return request, err
}

// ownerOf returns the pod's owner in the allocator.
func ownerOf(pod *corev1.Pod) alloc.Owner {
	return alloc.PodOwner(pod.Namespace, pod.Name, networkv1alpha1.InterfaceUID(pod))
}

// addressesOf returns the addresses in a pod's status.
func addressesOf(pod *corev1.Pod) (all []netip.Addr) {
	for _, ip := range pod.Status.PodIPs {
		if address, err := netip.ParseAddr(ip.IP); err == nil {
			all = append(all, address)
		}
	}
	return all
}

// unreadable returns why a pod would not get an address, or nil. A pod gets all that it requests, or nothing.
func (p *request) unreadable() error {
	switch {
	case p.addressErr != nil:
		return fmt.Errorf("%w: %w", errRequest, p.addressErr)
	case p.bandwidthErr != nil:
		return fmt.Errorf("%w: %w", errBandwidth, p.bandwidthErr)
	case p.randomHostPortsErr != nil:
		return fmt.Errorf("%w: %w", errHostPorts, p.randomHostPortsErr)
	}
	return nil
}
