package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// apiServer implements the part of an API server that queries of the operator need: the lease, the operator's pod,
// and exec in that pod.
type apiServer struct {
	*testing.T
	answer string // the operator's answer
	// also, if set, is called first for each request. It returns true if it has answered.
	also func(w http.ResponseWriter, r *http.Request) bool
}

// ServeHTTP implements http.Handler.
func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const namespace = "/api/v1/namespaces/weft-system/pods"
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "weft-system", Name: "weft-operator-x", UID: "uid"}}
	var found any = &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
	code := http.StatusOK
	switch path := r.URL.Path; {
	case s.also != nil && s.also(w, r):
		return
	case strings.HasSuffix(path, "/leases/weft-operator"):
		found = &coordinationv1.Lease{TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "weft-system", Name: leaseName},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("uid")}}
	case path == namespace:
		found = &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{pod}}
	case path == namespace+"/weft-operator-x/exec":
		answer := func(_ io.Reader, out, _ io.Writer) int { _, _ = io.WriteString(out, s.answer); return 0 }
		(&spdyServer{T: s.T, run: answer}).ServeHTTP(w, r)
		return
	default:
		code = http.StatusNotFound
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(found); err != nil {
		s.Error(err)
	}
}

// run executes a command against the server.
func (s *apiServer) run(args ...string) (code int, out, errs string) {
	s.Helper()
	server := httptest.NewServer(s)
	defer server.Close()
	return runAgainst(server.URL, args...)
}

func runAgainst(url string, args ...string) (code int, out, errs string) {
	var stdout, stderr bytes.Buffer
	code = Run(append([]string{"--server", url, "--kubeconfig", os.DevNull}, args...), strings.NewReader(""), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// unreachable returns the URL of a port without a listener.
func unreachable() string {
	server := httptest.NewServer(nil)
	defer server.Close()
	return server.URL
}

// Without an API server each command names the API server and does not mention the operator.
func TestErrorsNameTheUnreachableAPIServer(t *testing.T) {
	server := unreachable()
	manifest := filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(manifest, []byte("{apiVersion: v1, kind: Pod, metadata: {name: p}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	bundle := filepath.Join(t.TempDir(), "bundle.tar.gz")
	for _, args := range [][]string{
		{"status"}, {"status", "--wait"}, {"log"}, {"log", "--follow"}, {"drift"}, {"check"},
		{"plan", "-f", manifest}, {"bundle", "-f", bundle}, {"ip", "list"}, {"ip", "release", "192.0.2.1", "-y"},
		{"ip", "history", "192.0.2.1"}, {"ip", "leaks"}, {"ip", "import", "--location", "NAT"},
	} {
		code, out, errs := runAgainst(server, args...)
		if code != exitError || out != "" || !strings.HasPrefix(errs, "error: cannot reach the API server "+server+": ") ||
			!strings.Contains(errs, "refused") || strings.Contains(errs, "leads") {
			t.Errorf("%v: exit code %d, %q, %q", args, code, out, errs)
		}
	}
	if _, err := os.Stat(bundle); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty bundle was left behind: %v", err)
	}
}

// A certificate that is not trusted has another cure than an API server that does not answer.
func TestErrorsSayWhichCertificateIsWrong(t *testing.T) {
	server := httptest.NewTLSServer(nil) // its certificate is for example.com and 127.0.0.1
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer server.Close()
	authority := filepath.Join(t.TempDir(), "ca.crt")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(authority, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		says string
	}{
		{nil, "the kubeconfig's certificate-authority did not issue it"},
		{[]string{"--certificate-authority", authority, "--tls-server-name", "cluster.test"}, "the certificate is not for cluster.test"},
	} {
		code, _, errs := runAgainst(server.URL, append([]string{"status"}, test.args...)...)
		if code != exitError || !strings.HasPrefix(errs, "error: cannot trust the API server "+server.URL+": ") ||
			!strings.Contains(errs, test.says) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: exit code %d, %q; want %q", test.args, code, errs, test.says)
		}
	}
	through := throughProxy("https://192.0.2.10:6443/api", func(*http.Request) (*url.URL, error) {
		return url.Parse("http://user:x@proxy.test:80")
	})
	if !strings.Contains(through, "the proxy proxy.test:80 of HTTPS_PROXY, so add 192.0.2.10 to NO_PROXY") {
		t.Errorf("the proxy is not named: %q", through)
	}
	dialing := errors.New("cannot execute in pod weft-system/weft-central-0: error dialing backend: tls: failed to verify certificate: " +
		"x509: certificate signed by unknown authority")
	if text := explain(t.Context(), dialing).Error(); !strings.Contains(text, "certificate of the kubelet on the pod's node") {
		t.Errorf("error: %s", text)
	}
}

// roundTripper is a transport for tests.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A request that the API server accepts but never answers fails after patience. A watch or log that has begun does
// not.
func TestAHangingAPIServerIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := impatient{roundTripper(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}), t.Context()}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://192.0.2.1:6443/version", nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = (&http.Client{Transport: hangs}).Do(request)
		const want = "https://192.0.2.1:6443: no answer within 1m0s"
		if !errors.Is(err, errSilent) || !strings.Contains(explain(t.Context(), err).Error(), want) {
			t.Errorf("error: %v", err)
		}

		var began context.Context
		begins := impatient{roundTripper(func(r *http.Request) (*http.Response, error) {
			began = r.Context()
			return &http.Response{Body: http.NoBody}, nil
		}), t.Context()}
		answer, err := begins.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		select {
		case <-began.Done():
			t.Error("the rest of an answer was given up")
		case <-time.After(10 * patience):
		}
	})
}

// A signal ends a command that waits for the API server, and the error is just "interrupted".
func TestAnInterruptedCommandReportsIt(t *testing.T) {
	server := &apiServer{T: t, also: func(_ http.ResponseWriter, r *http.Request) bool {
		if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
			t.Error(err)
		}
		<-r.Context().Done() // the command closes the connection
		return true
	}}
	for _, command := range []string{"status", "drift", "log", "bundle", "check", "ip leaks"} {
		if code, out, errs := server.run(strings.Fields(command)...); code != exitError || out != "" || errs != "error: interrupted\n" {
			t.Errorf("%s: exit code %d, %q, %q", command, code, out, errs)
		}
	}
}

// The API server's warnings are shown as by kubectl, and client-go's log does not appear.
func TestClientLogIsNotPartOfTheOutput(t *testing.T) {
	server := &apiServer{T: t, answer: `{"changes": []}`, also: func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Warning", `299 - "unknown field \"spec.x\""`)
		klog.Errorf("log of a library") // while the command runs
		return false
	}}
	past := captureStderr(t, func() {
		const want, warning = "The database matches the desired state.\n", "Warning: unknown field \"spec.x\"\n"
		if code, out, errs := server.run("drift"); code != exitOK || out != want || errs != warning {
			t.Errorf("exit code %d, %q, %q", code, out, errs)
		}
	})
	if past != "" {
		t.Errorf("%q was written to the process's standard error", past)
	}
}

// captureStderr returns what do writes to the process's standard error.
func captureStderr(t *testing.T, do func()) string {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stderr
	os.Stderr = write
	do()
	os.Stderr = before
	write.Close()
	text, err := io.ReadAll(read)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A node that does not exist is refused unless the manifests create it, because a plan for it would show nothing.
func TestPlanOnANodeThatDoesNotExist(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"pod.yaml":  "{apiVersion: v1, kind: Pod, metadata: {name: p}}",
		"node.yaml": "{apiVersion: v1, kind: Node, metadata: {name: nope}}",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server := &apiServer{T: t}
	pod := filepath.Join(dir, "pod.yaml")
	const want = "error: --node nope: the cluster has no such node\n"
	if code, out, errs := server.run("plan", "-f", pod, "--node", "nope"); code != exitError || out != "" || errs != want {
		t.Errorf("exit code %d, %q, %q", code, out, errs)
	}
	node := filepath.Join(dir, "node.yaml")
	code, _, errs := server.run("plan", "-f", pod, "-f", node, "--node", "nope")
	if code != exitError || strings.Contains(errs, "--node") {
		t.Errorf("with the node among the manifests: exit code %d, %q", code, errs)
	}
	code, _, errs = server.run("plan", "-f", pod, "--node", "nope", "--delete")
	if code != exitError || !strings.Contains(errs, "--delete") {
		t.Errorf("with --delete: exit code %d, %q", code, errs)
	}
}
