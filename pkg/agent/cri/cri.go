// Package cri asks the node's container runtime which sandboxes it has.
//
//	agent ──gRPC──▶ unix:///run/containerd/containerd.sock: RuntimeService.ListPodSandbox
//
// A connection lives for one question: it is asked rarely, and a runtime may be replaced at any time.
package cri

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// timeout bounds one question; a busy runtime of 250 pods answers in milliseconds.
const timeout = 10 * time.Second

// Runtime is the container runtime that listens at a socket.
type Runtime struct{ socket string }

// New returns the runtime of an absolute path of a unix socket.
func New(socket string) *Runtime { return &Runtime{socket: socket} }

// Sandboxes returns the IDs of all sandboxes, those that do not run any more included. A sandbox whose ADD is under way, or was a moment
// ago, may lack.
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
