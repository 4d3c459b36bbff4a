package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// A log is returned unchanged, and a refusal contains the API server's message.
func TestBodiesAndRefusals(t *testing.T) {
	const text = "2026-01-02T03:04:05Z a line\n"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/log") {
			w.Header().Set("Content-Type", "text/plain")
			fmt.Fprint(w, text)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,`+
			`"message":"pods \"x:9441\" is forbidden: User \"u\" cannot get resource \"pods/proxy\""}`)
	}))
	defer server.Close()
	typed, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	c := &collector{cluster: &cluster{namespace: defaultNamespace}, typed: typed}
	if have, err := c.log(t.Context(), "x", "c", false); err != nil || string(have) != text {
		t.Errorf("log: %q, %v", have, err)
	}
	if have, err := c.metrics(t.Context(), "x", 9441); err == nil || !strings.Contains(err.Error(), `cannot get resource "pods/proxy"`) {
		t.Errorf("refused metrics: %q, %v", have, err)
	}
}
