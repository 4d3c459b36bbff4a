package cli

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-network/weft/pkg/kubectl/cli"
)

// page serves the page of kubectl weft ui to a user who may read pods alone. The API server decides what else the user
// may read, and the page follows when that changes.
func page(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(taken.Addr().String(), ":")
	weft(t, failed, []string{"ui", "--port", port}, "error: cannot listen on the loopback interface", "--port selects another port")
	weft(t, failed, []string{"ui", "--port", "-1"}, "invalid argument")
	weft(t, failed, []string{"ui", "now"}, "unexpected argument")
	if err := taken.Close(); err != nil {
		t.Error(err)
	}

	kubectl(t, "create", "clusterrole", "pod-reader", "--verb=list,watch", "--resource=pods")
	kubectl(t, "create", "clusterrolebinding", "pod-reader", "--clusterrole=pod-reader", "--user=jane")
	in, out := io.Pipe()
	var errs bytes.Buffer
	code := make(chan int)
	go func() {
		defer close(code)
		code <- cli.Run([]string{"--kubeconfig", kubeconfig, "--as=jane", "ui"}, strings.NewReader(""), out, &errs)
	}()
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		t.Fatal(errs.String())
	}
	origin, token, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "Open "), "/#token=")
	go func() { _, _ = io.Copy(io.Discard, in) }() // the next link
	answer, err := http.Post(origin+"/api/session", "application/json", strings.NewReader(`{"token":"`+token+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	_, key, ok := strings.Cut(string(text), `"key":"`)
	if err != nil || !ok {
		t.Fatalf("%s %v", text, err)
	}
	key, _, _ = strings.Cut(key, `"`)
	events := stream(t, origin, key)
	events.await(t, `"table":"pods"`, `"ready":true`)
	events.await(t, `"table":"nodes"`, `"right":"list nodenetworks.network.weft.dev cluster-wide"`)
	events.await(t, "event: health", `"right":"get clusternetworks.network.weft.dev cluster-wide"`)
	create(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "later"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}}})
	events.await(t, "event: change", `"Pod/default/later"`)

	kubectl(t, "create", "clusterrole", "node-reader", "--verb=list,watch", "--resource=nodenetworks.network.weft.dev")
	kubectl(t, "create", "clusterrolebinding", "node-reader", "--clusterrole=node-reader", "--user=jane")
	events.await(t, `"table":"nodes"`, `"NodeNetwork/t1"`)

	if err := syscall.Kill(syscall.Getpid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if got := <-code; got != fine {
		t.Errorf("exit code %d: %s", got, &errs)
	}
}

// stream reads the changes of the page.
func stream(t *testing.T, origin, key string) *eventLog {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, origin+"/api/changes", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+key)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	events := &eventLog{coming: make(chan string)}
	go func() {
		defer close(events.coming)
		reader := bufio.NewReader(answer.Body)
		event := ""
		for {
			line, err := reader.ReadString('\n')
			if event += line; line == "\n" {
				events.coming <- event
				event = ""
			}
			if err != nil {
				return
			}
		}
	}()
	return events
}

// eventLog is the events of a stream, which may come in any order.
type eventLog struct {
	coming chan string
	seen   []string
}

// await waits until an event has all texts.
func (l *eventLog) await(t *testing.T, texts ...string) {
	t.Helper()
	hit := func(event string) bool {
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(event, text) })
	}
	over := time.After(time.Minute)
	for !slices.ContainsFunc(l.seen, hit) {
		select {
		case event, ok := <-l.coming:
			if !ok {
				t.Fatalf("the stream ends before %v", texts)
			}
			l.seen = append(l.seen, event)
		case <-over:
			t.Fatalf("no event of %d has %v", len(l.seen), texts)
		}
	}
}
