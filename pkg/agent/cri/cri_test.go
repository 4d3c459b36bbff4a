package cri

import (
	"context"
	"errors"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// runtimeService answers ListPodSandbox as containerd does.
type runtimeService struct {
	runtime.UnimplementedRuntimeServiceServer
	sandboxes []*runtime.PodSandbox
	err       error
}

func (s *runtimeService) ListPodSandbox(context.Context, *runtime.ListPodSandboxRequest) (*runtime.ListPodSandboxResponse, error) {
	return &runtime.ListPodSandboxResponse{Items: s.sandboxes}, s.err
}

func serve(t *testing.T, service *runtimeService) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "containerd.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	runtime.RegisterRuntimeServiceServer(server, service)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		<-ended
	})
	return socket
}

// A sandbox that has ended still has its attachment until the runtime sends DEL.
func TestEverySandboxIsListed(t *testing.T) {
	socket := serve(t, &runtimeService{sandboxes: []*runtime.PodSandbox{
		{Id: "running", State: runtime.PodSandboxState_SANDBOX_READY}, {Id: "ended", State: runtime.PodSandboxState_SANDBOX_NOTREADY}}})
	got, err := New(socket).Sandboxes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if ids := slices.Sorted(maps.Keys(got)); !slices.Equal(ids, []string{"ended", "running"}) {
		t.Errorf("sandboxes are %v", ids)
	}
}

// An error must never look like an empty list.
func TestARuntimeThatDoesNotAnswerIsAnError(t *testing.T) {
	refusing := serve(t, &runtimeService{err: errors.New("is starting")})
	absent := filepath.Join(t.TempDir(), "absent.sock")
	for socket, text := range map[string]string{refusing: "is starting", absent: "no such file or directory"} {
		got, err := New(socket).Sandboxes(t.Context())
		if err == nil || got != nil || !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), socket) {
			t.Errorf("%s: %v, %v", socket, got, err)
		}
	}
}
