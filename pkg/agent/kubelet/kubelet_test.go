package kubelet

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lister answers List as kubelet does.
type lister struct {
	podresources.UnimplementedPodResourcesListerServer
	pods []*podresources.PodResources
	err  error
}

func (l *lister) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	return &podresources.ListPodResourcesResponse{PodResources: l.pods}, l.err
}

func serve(t *testing.T, l *lister) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "kubelet.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(server, l)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return socket
}

func containerWith(resource string, ids ...string) *podresources.ContainerResources {
	return &podresources.ContainerResources{Devices: []*podresources.ContainerDevices{
		{ResourceName: resource, DeviceIds: ids}, {ResourceName: "example.com/other", DeviceIds: []string{"other"}}}}
}

func TestDevicesOfAPod(t *testing.T) {
	socket := serve(t, &lister{pods: []*podresources.PodResources{
		{Namespace: "demo", Name: "other", Containers: []*podresources.ContainerResources{containerWith("example.com/vf", "x")}},
		{Namespace: "demo", Name: "web", Containers: []*podresources.ContainerResources{
			containerWith("example.com/vf", "b", "a"), containerWith("example.com/vf", "c", "a")}},
	}})
	ids, err := New(socket).Devices(t.Context(), "demo", "web", "example.com/vf")
	if err != nil || !slices.Equal(ids, []string{"b", "a", "c"}) {
		t.Errorf("devices %v, %v", ids, err)
	}
	for _, pod := range []string{"web", "none"} {
		if ids, err := New(socket).Devices(t.Context(), "demo", pod, "example.com/none"); err != nil || len(ids) > 0 {
			t.Errorf("devices that pod %s has not: %v, %v", pod, ids, err)
		}
	}
}

func TestKubeletDoesNotAnswer(t *testing.T) {
	socket := serve(t, &lister{err: errors.New("too many requests")})
	for at, want := range map[string]string{socket: "too many requests", socket + "-absent": "no such file"} {
		if _, err := New(at).Devices(t.Context(), "demo", "web", "example.com/vf"); err == nil ||
			!strings.Contains(err.Error(), "kubelet "+at) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
