// Package kubelet reads which devices the node's kubelet gave to a pod.
//
//	agent ──gRPC──▶ unix:///var/lib/kubelet/pod-resources/kubelet.sock: PodResourcesLister.List
//
// Each call opens its own connection, because calls are rare and kubelet may be replaced at any time.
package kubelet

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

const (
	// timeout limits one request.
	timeout = 10 * time.Second
	// maxMessage limits a list. Each device of a node is some 50 bytes.
	maxMessage = 16 << 20
)

// PodResources is kubelet's service at a socket.
type PodResources struct{ socket string }

// New returns the service that listens at a unix socket, whose path must be absolute.
func New(socket string) *PodResources { return &PodResources{socket: socket} }

// Devices returns the IDs of a resource's devices that a pod has, in kubelet's order of the pod's containers. A pod
// without such devices has none; that is no error.
func (p *PodResources) Devices(ctx context.Context, namespace, pod, resource string) (ids []string, err error) {
	conn, err := grpc.NewClient("unix://"+p.socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, fmt.Errorf("kubelet %s: %w", p.socket, err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	listed, err := podresources.NewPodResourcesListerClient(conn).List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("kubelet %s: list the resources of pods: %w", p.socket, err)
	}
	for _, one := range listed.GetPodResources() {
		if one.GetNamespace() == namespace && one.GetName() == pod {
			ids = append(ids, devicesOf(one, resource)...)
		}
	}
	return ids, nil
}

// devicesOf returns the IDs of a pod's devices, each once: containers may share a device.
func devicesOf(pod *podresources.PodResources, resource string) (ids []string) {
	for _, container := range pod.GetContainers() {
		for _, devices := range container.GetDevices() {
			if devices.GetResourceName() != resource {
				continue
			}
			for _, id := range devices.GetDeviceIds() {
				if !slices.Contains(ids, id) {
					ids = append(ids, id)
				}
			}
		}
	}
	return ids
}
