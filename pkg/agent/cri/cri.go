// Package cri lists the sandboxes of the node's container runtime.
//
//	agent ──gRPC──▶ unix:///run/containerd/containerd.sock: RuntimeService.ListPodSandbox
//
// Each call opens its own connection, because calls are rare and the runtime may be replaced at any time.
package cri

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// timeout limits one request. A busy runtime with 250 pods answers in milliseconds.
const timeout = 10 * time.Second

// Runtime is the container runtime that listens at a socket.
type Runtime struct{ socket string }

// New returns the runtime that listens at a unix socket, whose path must be absolute.
func New(socket string) *Runtime { return &Runtime{socket: socket} }

// Sandboxes returns the IDs of all sandboxes, including stopped ones. A sandbox whose ADD is under way or has just ended
// may be missing.
func (r *Runtime) Sandboxes(ctx context.Context) (map[string]bool, error) {
	conn, err := grpc.NewClient("unix://"+r.socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("container runtime %s: %w", r.socket, err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	listed, err := runtime.NewRuntimeServiceClient(conn).ListPodSandbox(ctx, &runtime.ListPodSandboxRequest{})
	if err != nil {
		return nil, fmt.Errorf("container runtime %s: list sandboxes: %w", r.socket, err)
	}
	sandboxes := make(map[string]bool, len(listed.GetItems()))
	for _, sandbox := range listed.GetItems() {
		sandboxes[sandbox.GetId()] = true
	}
	return sandboxes, nil
}
