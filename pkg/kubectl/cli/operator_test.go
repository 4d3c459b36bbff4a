package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// spdyServer is an API server without WebSocket. It serves an exec request by SPDY, as an API server behind an old
// proxy does. run stands for the program in the pod.
type spdyServer struct {
	*testing.T
	requests []string // method and command of each request
	run      func(in io.Reader, out, errs io.Writer) (code int)
}

// ServeHTTP implements http.Handler.
func (s *spdyServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests = append(s.requests, r.Method+" "+strings.Join(r.URL.Query()["command"], " "))
	if r.Header.Get("Upgrade") == "websocket" {
		http.Error(w, "no WebSocket here", http.StatusForbidden)
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{remotecommand.StreamProtocolV4Name}); err != nil {
		s.Error(err)
		return
	}
	opened := make(chan httpstream.Stream, 4)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(stream httpstream.Stream, _ <-chan struct{}) error {
		opened <- stream
		return nil
	})
	if conn == nil {
		s.Error("no SPDY either")
		return
	}
	defer conn.Close()
	want := 3
	if r.URL.Query().Get("stdin") == "true" {
		want++
	}
	streams := map[string]httpstream.Stream{corev1.StreamTypeStdin: nil}
	for range want {
		stream := <-opened
		streams[stream.Headers().Get(corev1.StreamType)] = stream
	}
	s.answer(streams)
}

// answer runs the program and reports its exit code on the error stream.
func (s *spdyServer) answer(streams map[string]httpstream.Stream) {
	var in io.Reader = strings.NewReader("")
	if streams[corev1.StreamTypeStdin] != nil {
		in = streams[corev1.StreamTypeStdin]
	}
	status := metav1.Status{Status: metav1.StatusSuccess}
	if code := s.run(in, streams[corev1.StreamTypeStdout], streams[corev1.StreamTypeStderr]); code != 0 {
		status = metav1.Status{Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason, Details: &metav1.StatusDetails{
			Causes: []metav1.StatusCause{{Type: remotecommand.ExitCodeCauseType, Message: fmt.Sprint(code)}}}}
	}
	if err := json.NewEncoder(streams[corev1.StreamTypeError]).Encode(status); err != nil {
		s.Error(err)
	}
	for _, kind := range []string{corev1.StreamTypeStdout, corev1.StreamTypeStderr, corev1.StreamTypeError} {
		_ = streams[kind].Close() // the client may be gone once it has the answer
	}
}

func (s *spdyServer) operator() *operator {
	s.Helper()
	server := httptest.NewServer(s)
	s.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		s.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "weft-system", Name: "weft-operator-x"}}
	return &operator{inPod{config, api, pod}}
}

func TestQueriesFallBackToSPDY(t *testing.T) {
	server := &spdyServer{T: t, run: func(in io.Reader, out, _ io.Writer) int {
		text, err := io.ReadAll(in) // ends when the client closes the stream
		if err != nil {
			t.Error(err)
		}
		fmt.Fprintf(out, `{"notes": [%q]}`, text)
		return 0
	}}
	var answer struct{ Notes []string }
	if err := server.operator().query(t.Context(), strings.NewReader("manifests"), &answer, "plan", "--delete"); err != nil {
		t.Fatal(err)
	}
	if len(answer.Notes) != 1 || answer.Notes[0] != "manifests" {
		t.Errorf("answer: %v, want the manifests", answer)
	}
	const command = "/usr/bin/weft admin plan --delete"
	if want := []string{"GET " + command, "POST " + command}; fmt.Sprint(server.requests) != fmt.Sprint(want) {
		t.Errorf("requests: %v, want %v", server.requests, want)
	}
}

// The error contains the operator's message instead of the exit code.
func TestErrorsContainTheOperatorsMessage(t *testing.T) {
	server := &spdyServer{T: t, run: func(_ io.Reader, _, errs io.Writer) int {
		fmt.Fprintln(errs, "weft: not available: this operator does not lead")
		return 1
	}}
	const want = "not available: this operator does not lead"
	if _, err := server.operator().admin(t.Context(), nil, "drift"); err == nil || err.Error() != want {
		t.Errorf("error: %v", err)
	}
	server.run = func(io.Reader, io.Writer, io.Writer) int { return 137 } // killed without a message
	_, err := server.operator().admin(t.Context(), nil, "drift")
	if err == nil || !strings.Contains(err.Error(), "weft-operator-x") || !strings.Contains(err.Error(), "137") {
		t.Errorf("error: %v", err)
	}
}
