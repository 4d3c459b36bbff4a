package addressapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/weft-network/weft/test/poll"
)

// "weft api" runs with the token of its ServiceAccount. At SIGTERM it answers the request that it has begun, and ends.
func TestTheProgramEndsAfterItsRequests(t *testing.T) {
	w := newWorld(t, "program")
	program := filepath.Join(w.folder, "weft")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", program, "../..")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, text)
	}
	https, health, metrics := freeAddress(w), freeAddress(w), freeAddress(w)
	var log bytes.Buffer
	process := exec.Command(program, "api", "--bind-address="+https, "--health-probe-bind-address="+health, "--metrics-bind-address="+metrics,
		"--certificate="+filepath.Join(w.folder, "tls.crt"), "--private-key="+filepath.Join(w.folder, "tls.key"))
	process.Env = append(os.Environ(), "KUBECONFIG="+ownKubeconfig(w))
	process.Stdout, process.Stderr = &log, &log
	w.do(process.Start())
	ended := make(chan error, 1)
	go func() { ended <- process.Wait() }()
	t.Cleanup(func() { _ = process.Process.Kill() }) // it has ended, unless the test failed
	w.eventually(func() error { return get("http://"+health+"/readyz", "") })

	w.url = "https://" + https
	w.wants(w.call(w.all, "GET", "/v1/pools?limit=1", nil), http.StatusOK)
	w.do(get("http://"+metrics+"/metrics", `weft_api_request_duration_seconds_count{code="200",operation="list-pools"} 1`))

	// The server sends "100 Continue" when the handler reads the body. Then the client reads the body's first byte.
	body := &lateBody{Reader: strings.NewReader(`{}`), before: func() {
		w.do(process.Process.Signal(syscall.SIGTERM))
		w.do(poll.Wait{Timeout: patience, Interval: poll.Interval}.Until(context.Background(), func() error {
			connection, err := net.Dial("tcp", https)
			if err != nil {
				return nil // it accepts no new connections
			}
			return fmt.Errorf("%s still accepts connections: %w", https, connection.Close())
		}))
	}}
	w.client.Transport.(*http.Transport).ExpectContinueTimeout = patience
	r, err := w.send("POST", "/v1/pools", http.Header{"Authorization": {"Bearer " + w.all}, "Expect": {"100-continue"}}, body)
	w.do(err)
	w.refused(r, http.StatusBadRequest, "#/name")
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("weft api ended with %v:\n%s", err, log.String())
		}
	case <-time.After(patience):
		t.Error("weft api does not end")
	}
}

// lateBody calls a function before its first byte.
type lateBody struct {
	io.Reader
	before func()
}

func (b *lateBody) Read(p []byte) (int, error) {
	if b.before != nil {
		b.before()
		b.before = nil
	}
	return b.Reader.Read(p)
}

// freeAddress returns an address at which nothing listens.
func freeAddress(w *world) string {
	w.Helper()
	listener, err := (&net.ListenConfig{}).Listen(w.Context(), "tcp", "127.0.0.1:0")
	w.do(err)
	defer listener.Close()
	return listener.Addr().String()
}

// get returns an error unless a URL has status 200 and a body with a text.
func get(url, text string) error {
	reply, err := http.Get(url)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err == nil && (reply.StatusCode != http.StatusOK || !strings.Contains(string(body), text)) {
		return fmt.Errorf("%s: status %d without %q: %s", url, reply.StatusCode, text, body)
	}
	return err
}

// ownKubeconfig writes a kubeconfig with the token of the API's own ServiceAccount.
func ownKubeconfig(w *world) string {
	w.Helper()
	request := &authenticationv1.TokenRequest{}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "weft-system", Name: "weft-api"}}
	w.do(api.SubResource("token").Create(w.Context(), account, request))
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: admin.Host, CertificateAuthorityData: admin.CAData}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	file := filepath.Join(w.folder, "kubeconfig")
	w.do(clientcmd.WriteToFile(*config, file))
	return file
}
