package cniserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	types100 "github.com/containernetworking/cni/pkg/types/100"
	"go.uber.org/goleak"

	"github.com/weft-network/weft/pkg/cni/cniwire"
)

// peerSocket makes this process a client of another user. See TestAnotherUserIsRefused.
const peerSocket = "WEFT_TEST_PEER_SOCKET"

func TestMain(m *testing.M) {
	if socket := os.Getenv(peerSocket); socket != "" {
		os.Exit(bePeer(socket))
	}
	goleak.VerifyTestMain(m)
}

// fake is a Handler whose functions a test sets.
type fake struct {
	add   func(ctx context.Context, req cniwire.Request) (*types100.Result, error)
	del   func(ctx context.Context, req cniwire.Request) error
	other func(ctx context.Context, req cniwire.Request) error // CHECK, STATUS and GC
}

func (f fake) Add(ctx context.Context, req cniwire.Request) (*types100.Result, error) {
	return f.add(ctx, req)
}
func (f fake) Del(ctx context.Context, req cniwire.Request) error    { return f.del(ctx, req) }
func (f fake) Check(ctx context.Context, req cniwire.Request) error  { return f.other(ctx, req) }
func (f fake) Status(ctx context.Context, req cniwire.Request) error { return f.other(ctx, req) }
func (f fake) GC(ctx context.Context, req cniwire.Request) error     { return f.other(ctx, req) }

func succeed(context.Context, cniwire.Request) (*types100.Result, error) {
	return &types100.Result{Interfaces: []*types100.Interface{{Name: "eth0"}}}, nil
}

// running is a server that a test has started.
type running struct {
	socket string
	stop   context.CancelFunc
	ended  chan error // Serve's result, once
}

// serve starts a server that runs until the test ends.
func serve(t *testing.T, handler Handler, options Options) running {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "weft", "cni.sock")
	listener, err := Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, listener, socket, handler, options)
}

func serveOn(t *testing.T, listener *net.UnixListener, socket string, handler Handler, options Options) running {
	t.Helper()
	if options.PeerUID == 0 {
		options.PeerUID = uint32(os.Getuid())
	}
	ctx, stop := context.WithCancel(context.Background())
	server := running{socket: socket, stop: stop, ended: make(chan error, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.ended <- New(handler, options).Serve(ctx, listener)
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return server
}

func (r running) send(t *testing.T, req cniwire.Request) cniwire.Response {
	t.Helper()
	resp, err := cniwire.Do(t.Context(), r.socket, req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// dial connects without sending a request.
func (r running) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", r.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	// No test needs this long. A server that never answers fails the test.
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// request returns a valid request of the n-th pod.
func request(command cniwire.Command, n int) cniwire.Request {
	config := `{"cniVersion":"1.0.0","name":"weft"}`
	if command == cniwire.Check {
		config = `{"cniVersion":"1.0.0","name":"weft","prevResult":{}}`
	}
	return cniwire.Request{
		Version:     cniwire.Version,
		Command:     command,
		ContainerID: fmt.Sprintf("container%d", n),
		NetNS:       "/run/netns/cni-1",
		IfName:      "eth0",
		Args:        cniwire.Args{PodNamespace: "demo", PodName: fmt.Sprintf("web-%d", n)},
		Config:      json.RawMessage(config),
	}
}
