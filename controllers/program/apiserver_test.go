package program

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// Without an API server the error names the address, the ConfigMap, its keys and the command that creates it. In a
// cluster without kube-proxy, a new user sees nothing else.
func TestAPIServerThatIsNotThereNamesTheConfigMap(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := gone.Addr().String()
	gone.Close()
	config := &rest.Config{Host: "https://" + address}

	for _, test := range []struct {
		name, injected string
		want           []string
	}{
		{"the cluster IP", "tcp://" + address, []string{address + ", the cluster IP of Service default/kubernetes",
			"refused", "ConfigMap weft-x/weft-apiserver, keys host and port",
			"kubectl -n weft-x create configmap weft-apiserver --from-literal=host=ADDRESS --from-literal=port=6443"}},
		{"an address of the ConfigMap", "tcp://10.96.0.1:443",
			[]string{address + ": ", "refused", "kubectl -n weft-x edit configmap weft-apiserver"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := checkAPIServer(t.Context(), config, "weft-x", test.injected)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not contain %q", err, want)
				}
			}
		})
	}
}

// An API server that refuses the request is reachable.
func TestAnyAnswerIsAnAPIServer(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusUnauthorized, http.StatusForbidden, http.StatusInternalServerError} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		if err := checkAPIServer(t.Context(), &rest.Config{Host: server.URL}, "weft-system", ""); err != nil {
			t.Errorf("status %d: %v", status, err)
		}
		server.Close()
	}
}

// A process that ends reports no error about the API server.
func TestEndIsNoComplaint(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := checkAPIServer(ctx, &rest.Config{Host: "https://127.0.0.1:1"}, "weft-system", ""); err != nil {
		t.Error(err)
	}
}
