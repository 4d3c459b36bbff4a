package cniserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/weft-network/weft/pkg/cni/cniwire"
	"github.com/weft-network/weft/test/poll"
)

func TestEachCommandReachesItsHandler(t *testing.T) {
	var got []string
	record := func(_ context.Context, req cniwire.Request) error {
		got = append(got, fmt.Sprintf("%s %s %q", req.Command, req.ContainerID, req.NetNS))
		return nil
	}
	add := func(ctx context.Context, req cniwire.Request) (*types100.Result, error) {
		_ = record(ctx, req)
		return succeed(ctx, req)
	}
	server := serve(t, fake{add: add, del: record, other: record}, Options{})
	for _, command := range []cniwire.Command{cniwire.Add, cniwire.Check, cniwire.Status, cniwire.GC, cniwire.Del} {
		if resp := server.send(t, request(command, 1)); resp.Error != nil {
			t.Errorf("%s: %v", command, resp.Error)
		}
	}
	want := []string{
		`ADD container1 "/run/netns/cni-1"`,
		`CHECK container1 "/run/netns/cni-1"`,
		`STATUS container1 "/run/netns/cni-1"`,
		`GC container1 "/run/netns/cni-1"`,
		`DEL container1 ""`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("handlers got\n%s", strings.Join(got, "\n"))
	}
}

func TestAddAnswersAResultOfTheNewestVersion(t *testing.T) {
	server := serve(t, fake{add: succeed}, Options{})
	resp := server.send(t, request(cniwire.Add, 1))
	var result types100.Result
	if err := json.Unmarshal(resp.Result, &result); err != nil {
		t.Fatal(err)
	}
	if result.CNIVersion != "1.1.0" || len(result.Interfaces) != 1 {
		t.Errorf("result is %s", resp.Result)
	}
}

func TestErrorsReachTheRuntimeWithTheirCodes(t *testing.T) {
	coded := cniwire.Errorf(cniwire.CodeTryAgainLater, "no port yet")
	for name, test := range map[string]struct {
		err  error
		code uint
		text string
	}{
		"a code":         {coded, cniwire.CodeTryAgainLater, "no port yet"},
		"a wrapped code": {fmt.Errorf("pod demo/web-0: %w", coded), cniwire.CodeTryAgainLater, "pod demo/web-0: no port yet"},
		"a timeout":      {fmt.Errorf("wait for port: %w", context.DeadlineExceeded), cniwire.CodeTryAgainLater, "wait for port"},
		"an end":         {fmt.Errorf("wait for port: %w", context.Canceled), cniwire.CodeTryAgainLater, "wait for port"},
		"any other":      {errors.New("disk full"), cniwire.CodeInternal, "disk full"},
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, fake{add: func(context.Context, cniwire.Request) (*types100.Result, error) {
				return nil, test.err
			}}, Options{})
			resp := server.send(t, request(cniwire.Add, 1))
			if resp.Error == nil || resp.Error.Code != test.code || !strings.Contains(resp.Error.Msg, test.text) || resp.Result != nil {
				t.Errorf("response is %+v", resp)
			}
		})
	}
}

func TestAPanicIsOnePodsError(t *testing.T) {
	server := serve(t, fake{add: func(ctx context.Context, req cniwire.Request) (*types100.Result, error) {
		if req.ContainerID == "container1" {
			panic("poison")
		}
		return succeed(ctx, req)
	}}, Options{})
	for range 2 { // the pod's turn must be released
		if resp := server.send(t, request(cniwire.Add, 1)); resp.Error == nil || resp.Error.Code != cniwire.CodeInternal {
			t.Errorf("response to the poison is %+v", resp)
		}
	}
	if resp := server.send(t, request(cniwire.Add, 2)); resp.Error != nil {
		t.Errorf("response to another pod: %v", resp.Error)
	}
}

func TestGarbageGetsAnErrorAndDisturbsNobody(t *testing.T) {
	valid := func(change func(*cniwire.Request)) string {
		req := request(cniwire.Add, 1)
		change(&req)
		var stream bytes.Buffer
		if err := cniwire.Write(&stream, req); err != nil {
			t.Fatal(err)
		}
		return stream.String()
	}
	server := serve(t, fake{add: succeed}, Options{})
	for name, test := range map[string]struct {
		message string
		code    uint
	}{
		"HTTP":               {"GET /healthz HTTP/1.1\r\n\r\n", cniwire.CodeDecodingFailure},
		"an oversize length": {"\x00\x10\x00\x01", cniwire.CodeDecodingFailure},
		"no JSON":            {"\x00\x00\x00\x03abc", cniwire.CodeDecodingFailure},
		"no request":         {"\x00\x00\x00\x02[]", cniwire.CodeDecodingFailure},
		"an empty request":   {"\x00\x00\x00\x02{}", cniwire.CodeTryAgainLater}, // has version 0
		"an odd command":     {valid(func(r *cniwire.Request) { r.Command = "PWN" }), cniwire.CodeInvalidEnvironment},
		"an odd container":   {valid(func(r *cniwire.Request) { r.ContainerID = "../x" }), cniwire.CodeInvalidEnvironment},
		"an odd namespace":   {valid(func(r *cniwire.Request) { r.NetNS = "/etc/passwd" }), cniwire.CodeInvalidEnvironment},
		"an odd configuration": {valid(func(r *cniwire.Request) { r.Config = json.RawMessage(`{"name":"/"}`) }),
			cniwire.CodeInvalidConfig},
	} {
		t.Run(name, func(t *testing.T) {
			conn := server.dial(t)
			if _, err := io.WriteString(conn, test.message); err != nil {
				t.Fatal(err)
			}
			var resp cniwire.Response
			if err := cniwire.Read(conn, &resp); err != nil || resp.Error == nil || resp.Error.Code != test.code {
				t.Errorf("response is %+v, %v", resp, err)
			}
			if resp := server.send(t, request(cniwire.Add, 2)); resp.Error != nil {
				t.Errorf("another pod: %v", resp.Error)
			}
		})
	}
}

// A client that sends half a request delays no other client and gets an error.
func TestASlowClientIsGivenUp(t *testing.T) {
	server := serve(t, fake{add: succeed}, Options{IOTimeout: 500 * time.Millisecond})
	slow, silent := server.dial(t), server.dial(t)
	if _, err := slow.Write([]byte{0, 0, 1, 0, '{'}); err != nil {
		t.Fatal(err)
	}
	if resp := server.send(t, request(cniwire.Add, 2)); resp.Error != nil {
		t.Errorf("another pod: %v", resp.Error)
	}
	for _, conn := range []net.Conn{slow, silent} {
		var resp cniwire.Response
		err := cniwire.Read(conn, &resp)
		if err != nil || resp.Error == nil || resp.Error.Code != cniwire.CodeDecodingFailure {
			t.Errorf("response is %+v, %v", resp, err)
		}
	}
}

// A client that does not read its response must release its place. The response is larger than the socket's buffer.
func TestAClientThatDoesNotReadIsGivenUp(t *testing.T) {
	large := strings.Repeat("x", cniwire.MaxMessage-1024)
	server := serve(t, fake{add: func(ctx context.Context, req cniwire.Request) (*types100.Result, error) {
		if req.ContainerID == "container1" {
			return &types100.Result{Interfaces: []*types100.Interface{{Name: large}}}, nil
		}
		return succeed(ctx, req)
	}}, Options{IOTimeout: 500 * time.Millisecond, MaxConnections: 1})
	if err := cniwire.Write(server.dial(t), request(cniwire.Add, 1)); err != nil {
		t.Fatal(err)
	}
	// The server serves only one connection at a time, which is free again after the first client timed out.
	if resp := server.send(t, request(cniwire.Add, 2)); resp.Error != nil {
		t.Errorf("another pod: %v", resp.Error)
	}
}

func TestAProbeOfTheSocketIsNoRequest(t *testing.T) {
	observed := false
	server := serve(t, fake{add: succeed}, Options{Observe: func(cniwire.Request, time.Duration, error) { observed = true }})
	server.dial(t).Close()
	server.stop()
	if err := <-server.ended; err != nil || observed {
		t.Errorf("Serve returned %v; a request was observed: %v", err, observed)
	}
}

func TestTheRuntimeGivingUpEndsAnAddAndNoDel(t *testing.T) {
	started, ended := make(chan context.Context), make(chan error)
	delGoesOn := make(chan struct{})
	server := serve(t, fake{
		add: func(ctx context.Context, _ cniwire.Request) (*types100.Result, error) {
			started <- ctx
			<-ctx.Done()
			ended <- ctx.Err()
			return nil, ctx.Err()
		},
		del: func(ctx context.Context, _ cniwire.Request) error {
			started <- ctx
			<-delGoesOn
			ended <- ctx.Err()
			return nil
		},
	}, Options{})

	for _, command := range []cniwire.Command{cniwire.Add, cniwire.Del} {
		conn := server.dial(t)
		if err := cniwire.Write(conn, request(command, 1)); err != nil {
			t.Fatal(err)
		}
		<-started
		conn.Close()
		if command == cniwire.Add {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("ADD's context ends with %v", err)
			}
		}
	}
	// Another ADD is cancelled after the DEL's peer disconnected, so that the server had time to notice that.
	conn := server.dial(t)
	if err := cniwire.Write(conn, request(cniwire.Add, 2)); err != nil {
		t.Fatal(err)
	}
	<-started
	conn.Close()
	<-ended
	close(delGoesOn)
	if err := <-ended; err != nil {
		t.Errorf("DEL's context ends with %v", err)
	}
}

func TestARequestHasALimitedTime(t *testing.T) {
	server := serve(t, fake{add: func(ctx context.Context, _ cniwire.Request) (*types100.Result, error) {
		<-ctx.Done()
		return nil, fmt.Errorf("wait for ovn-installed: %w", ctx.Err())
	}}, Options{RequestTimeout: 20 * time.Millisecond})
	resp := server.send(t, request(cniwire.Add, 1))
	if resp.Error == nil || resp.Error.Code != cniwire.CodeTryAgainLater || !strings.Contains(resp.Error.Msg, "ovn-installed") {
		t.Errorf("response is %+v", resp)
	}
}

func TestABurstOfPodsIsBounded(t *testing.T) {
	const pods, places = 250, 8
	var atOnce, most atomic.Int32
	server := serve(t, fake{add: func(ctx context.Context, req cniwire.Request) (*types100.Result, error) {
		now := atOnce.Add(1)
		defer atOnce.Add(-1)
		for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
		}
		return succeed(ctx, req)
	}}, Options{MaxRequests: places, MaxConnections: 100})
	var requests sync.WaitGroup
	for n := range pods {
		requests.Go(func() {
			resp, err := cniwire.Do(t.Context(), server.socket, request(cniwire.Add, n))
			if err != nil || resp.Error != nil {
				t.Errorf("pod %d: %+v, %v", n, resp.Error, err)
			}
		})
	}
	requests.Wait()
	if most.Load() > places {
		t.Errorf("%d requests were in the handler at once, more than %d", most.Load(), places)
	}
}

func TestStopLetsRequestsEnd(t *testing.T) {
	started, goOn := make(chan struct{}), make(chan struct{})
	server := serve(t, fake{add: func(ctx context.Context, req cniwire.Request) (*types100.Result, error) {
		close(started)
		<-goOn
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return succeed(ctx, req)
	}}, Options{StopTimeout: time.Hour})
	conn := server.dial(t)
	if err := cniwire.Write(conn, request(cniwire.Add, 1)); err != nil {
		t.Fatal(err)
	}
	<-started
	server.stop()
	awaitRefusal(t, server.socket)
	close(goOn)
	var resp cniwire.Response
	if err := cniwire.Read(conn, &resp); err != nil || resp.Error != nil {
		t.Errorf("response is %+v, %v", resp, err)
	}
	if err := <-server.ended; err != nil {
		t.Errorf("Serve returned %v", err)
	}
}

// awaitRefusal returns after the listener is closed.
func awaitRefusal(t *testing.T, socket string) {
	t.Helper()
	poll.Eventually(t, time.Minute, poll.True("the socket refuses connections", func() bool {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			return true
		}
		conn.Close()
		return false
	}))
}

func TestStopEndsRequestsThatTakeTooLong(t *testing.T) {
	started := make(chan struct{})
	server := serve(t, fake{add: func(ctx context.Context, _ cniwire.Request) (*types100.Result, error) {
		close(started)
		<-ctx.Done()
		return nil, ctx.Err()
	}}, Options{StopTimeout: time.Millisecond})
	conn := server.dial(t)
	if err := cniwire.Write(conn, request(cniwire.Add, 1)); err != nil {
		t.Fatal(err)
	}
	<-started
	server.stop()
	var resp cniwire.Response
	if err := cniwire.Read(conn, &resp); err != nil || resp.Error == nil || resp.Error.Code != cniwire.CodeTryAgainLater {
		t.Errorf("response is %+v, %v", resp, err)
	}
	if err := <-server.ended; err != nil {
		t.Errorf("Serve returned %v", err)
	}
}
