package ui

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weft-network/weft/pkg/trace/sketch"
)

const host = "127.0.0.1:8377"

var address = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8377}

// forbidden is an error as the API server writes it.
var forbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "",
	errors.New(`User "jane" cannot list resource "pods" in API group "" at the cluster scope`))

// tested is a server, the links that it has announced, and its handler.
type tested struct {
	*Server
	links   []string
	handler http.Handler
}

func newTested(c Cluster) *tested {
	s := &tested{}
	c.Explain = func(err error) error { return err }
	s.Server = New(c, address, func(link string) { s.links = append(s.links, link) })
	s.handler = s.Handler(address)
	return s
}

func (s *tested) do(request *http.Request) *httptest.ResponseRecorder {
	if request.Host == "example.com" {
		request.Host = host
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, request)
	return w
}

// get requests a path with a key.
func (s *tested) get(path, key string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodGet, path, nil)
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	return s.do(request)
}

// enter exchanges the token of a link.
func (s *tested) enter(link string) (key string, code int) {
	_, token, _ := strings.Cut(link, "#token=")
	w := s.do(httptest.NewRequest(http.MethodPost, "/api/session", strings.NewReader(`{"token":"`+token+`"}`)))
	var answer struct{ Key string }
	_ = json.Unmarshal(w.Body.Bytes(), &answer) // an error has no key
	return answer.Key, w.Code
}

// A link is good for one exchange, and then the next link is announced.
func TestALinkIsGoodOnce(t *testing.T) {
	s := newTested(Cluster{Name: "production"})
	first := s.Link(address)
	if !strings.HasPrefix(first, "http://"+host+"/#token=") || len(first) < len(host)+30 {
		t.Fatalf("link %s", first)
	}
	key, code := s.enter(first)
	if key == "" || code != http.StatusOK {
		t.Fatalf("the link gives key %q, code %d", key, code)
	}
	if again, code := s.enter(first); again != "" || code != http.StatusUnauthorized {
		t.Errorf("a used link gives key %q, code %d", again, code)
	}
	if len(s.links) != 1 || s.links[0] == first || s.links[0] != s.Link(address) {
		t.Fatalf("announced links %v", s.links)
	}
	second, _ := s.enter(s.links[0])
	if second == "" || second == key {
		t.Errorf("the second link gives key %q", second)
	}
	for _, wrong := range []string{"", "#token=", "#token=x", "#token=" + key} {
		if key, code := s.enter(wrong); key != "" || code != http.StatusUnauthorized {
			t.Errorf("link %q gives key %q, code %d", wrong, key, code)
		}
	}
	if key, code := s.enter("#token=" + strings.Repeat("x", 2<<10)); key != "" || code != http.StatusBadRequest {
		t.Errorf("a long request has code %d", code)
	}
}

// Nothing of the cluster is readable without a key.
func TestEverythingNeedsAKey(t *testing.T) {
	s := newTested(Cluster{Topology: func(context.Context, string) (string, error) { return "<svg/>", nil }})
	for _, path := range []string{"/api/changes", "/api/topology", "/api/trace", "/api/why", "/api/reach", "/api/around"} {
		for _, key := range []string{"", "x"} {
			if w := s.get(path, key); w.Code != http.StatusUnauthorized {
				t.Errorf("%s with key %q has code %d", path, key, w.Code)
			}
		}
	}
	key, _ := s.enter(s.Link(address))
	if w := s.get("/api/topology", key); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "svg") {
		t.Errorf("with a key: %d %s", w.Code, w.Body)
	}
	request := httptest.NewRequest(http.MethodGet, "/api/topology", nil)
	request.AddCookie(&http.Cookie{Name: "Authorization", Value: "Bearer " + key})
	if w := s.do(request); w.Code != http.StatusUnauthorized {
		t.Errorf("a cookie is taken for the key: %d", w.Code)
	}
}

// Requests by another name, from pages of other origins, and for permission to read from there are refused.
func TestForeignRequestsAreRefused(t *testing.T) {
	s := newTested(Cluster{})
	for _, test := range []struct {
		method, host, origin string
		code                 int
	}{
		{http.MethodGet, host, "", http.StatusOK},
		{http.MethodGet, "localhost:8377", "http://localhost:8377", http.StatusOK},
		{http.MethodGet, "evil.example:8377", "", http.StatusMisdirectedRequest},
		{http.MethodGet, "127.0.0.1", "", http.StatusMisdirectedRequest},
		{http.MethodGet, "127.0.0.1:80", "", http.StatusMisdirectedRequest},
		{http.MethodGet, host, "http://evil.example", http.StatusForbidden},
		{http.MethodGet, host, "null", http.StatusForbidden},
		{http.MethodGet, host, "http://localhost:8377", http.StatusForbidden},
		{http.MethodGet, host, "https://" + host, http.StatusForbidden},
		{http.MethodOptions, host, "", http.StatusMethodNotAllowed},
		{http.MethodPut, host, "", http.StatusMethodNotAllowed},
		{http.MethodDelete, host, "", http.StatusMethodNotAllowed},
	} {
		request := httptest.NewRequest(test.method, "/", nil)
		request.Host = test.host
		if test.origin != "" {
			request.Header.Set("Origin", test.origin)
		}
		w := s.do(request)
		if w.Code != test.code {
			t.Errorf("%s, Host %s, Origin %s: code %d, want %d", test.method, test.host, test.origin, w.Code, test.code)
		}
		checkHeaders(t, w.Header())
	}
}

// checkHeaders checks what every answer has.
func checkHeaders(t *testing.T, h http.Header) {
	t.Helper()
	for name, value := range headers {
		if h.Get(name) != value {
			t.Errorf("%s: %q", name, h.Get(name))
		}
	}
	for name := range h {
		if strings.HasPrefix(name, "Access-Control") || name == "Set-Cookie" {
			t.Errorf("unexpected header %s", name)
		}
	}
	if csp := h.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none';") || strings.Contains(csp, "unsafe") {
		t.Errorf("policy %s", csp)
	}
}

// A permission that the user lacks is named, with code 403. Other failures have the words of the command.
func TestFailuresAreExplained(t *testing.T) {
	fails := error(forbidden)
	s := newTested(Cluster{
		Topology: func(context.Context, string) (string, error) { return "", fails },
		Trace:    func(context.Context, TraceRequest) (Pictured, error) { return Pictured{}, fails },
		Why:      func(context.Context, string) (any, error) { return nil, fails },
	})
	key, _ := s.enter(s.Link(address))
	for _, path := range []string{"/api/topology", "/api/trace", "/api/why"} {
		w := s.get(path, key)
		if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), `"right":"list pods cluster-wide"`) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		checkHeaders(t, w.Header())
	}
	fails = errors.New("there is no pod demo/nope")
	if w := s.get("/api/why", key); w.Code != http.StatusUnprocessableEntity || w.Body.String() != `{"message":"there is no pod demo/nope"}` {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	s.hub.setState(s.feeds[0], refusalOf(forbidden, s.cluster.Explain))
	if w := s.get("/api/reach?pod=demo/web", key); w.Code != http.StatusForbidden {
		t.Errorf("who may reach a pod that cannot be read: %d %s", w.Code, w.Body)
	}
}

func TestMissingRight(t *testing.T) {
	for message, want := range map[string]string{
		`cannot list resource "pods" in API group "" at the cluster scope`:                  "list pods cluster-wide",
		`cannot create resource "pods/exec" in API group "" in the namespace "weft-system"`: "create pods/exec in namespace weft-system",
		`cannot watch resource "networks" in API group "weft" at the cluster scope: reason`: "watch networks.weft cluster-wide",
	} {
		if got := missingRight(apierrors.NewForbidden(schema.GroupResource{}, "", errors.New(message))); got != want {
			t.Errorf("%s: %q, want %q", message, got, want)
		}
	}
	if got := missingRight(errors.New("refused")); got != "" {
		t.Errorf("another error names %q", got)
	}
}

// The arguments of the form are passed on.
func TestTraceRequest(t *testing.T) {
	var got TraceRequest
	s := newTested(Cluster{Trace: func(_ context.Context, r TraceRequest) (Pictured, error) {
		got = r
		return Pictured{Answer: "yes", Picture: "<svg/>"}, nil
	}})
	key, _ := s.enter(s.Link(address))
	w := s.get("/api/trace?from=a&to=b&protocol=udp&port=53&family=IPv6&node=n1&allBackends=true", key)
	if want := (TraceRequest{"a", "b", "udp", "53", "IPv6", "n1", true}); got != want || !strings.Contains(w.Body.String(),
		`"answer":"yes"`) {
		t.Errorf("%+v: %s", got, w.Body)
	}
}

// The stream begins with the tables, and goes on with what changes.
func TestStream(t *testing.T) {
	s := newTested(Cluster{})
	key, _ := s.enter(s.Link(address))
	pods := s.feeds[0]
	web := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web"}}
	if err := pods.Replace([]any{web}, "1"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	in, out := io.Pipe()
	request := httptest.NewRequest(http.MethodGet, "/api/changes", nil).WithContext(ctx)
	request.Host = host
	request.Header.Set("Authorization", "Bearer "+key)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.handler.ServeHTTP(&piped{ResponseRecorder: httptest.NewRecorder(), out: out}, request)
	}()
	lines := bufio.NewScanner(in)
	await := func(wants ...string) {
		t.Helper()
		for lines.Scan() {
			text := lines.Text()
			if len(wants) > 0 && strings.Contains(text, wants[0]) {
				wants = wants[1:]
			}
			if len(wants) == 0 {
				return
			}
		}
		t.Fatalf("the stream ends before %v", wants)
	}
	await(`data: {"table":"pods","ready":true,"refused":[],"rows":{"Pod/demo/web":{"namespace":"demo","name":"web"`)
	if err := pods.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "late"}}); err != nil {
		t.Fatal(err)
	}
	await("event: change", `"put":{"Pod/demo/late":`)
	if err := pods.Delete(web); err != nil {
		t.Fatal(err)
	}
	await("event: change", `"drop":["Pod/demo/web"]`)
	s.hub.setState(pods, refusalOf(forbidden, s.cluster.Explain))
	await("event: state", `"right":"list pods cluster-wide"`)
	s.hub.setHealth(healthEvent{Report: "fine"})
	await("event: health", `"report":"fine"`)
	cancel()
	<-done
}

// piped is a response whose body is a pipe.
type piped struct {
	*httptest.ResponseRecorder
	out io.Writer
}

func (p *piped) Write(text []byte) (int, error) { return p.out.Write(text) }

// The files of the page name no other server, have no inline script or style, and import files that exist.
func TestThePageIsComplete(t *testing.T) {
	s := newTested(Cluster{})
	referred := regexp.MustCompile(`(?:from |import )'([^']+)'|(?:src|href)="([^"#]+)"`)
	files := 0
	err := fs.WalkDir(web, "web", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		text, err := fs.ReadFile(web, name)
		if err != nil {
			return err
		}
		for _, foreign := range []string{"https://", "style=\"", "<style", "javascript:", "innerHTML", "eval("} {
			if strings.Contains(string(text), foreign) {
				t.Errorf("%s has %s", name, foreign)
			}
		}
		for _, found := range referred.FindAllStringSubmatch(string(text), -1) {
			target := path.Join("/", path.Dir(strings.TrimPrefix(name, "web")), found[1]+found[2])
			if w := s.get(target, ""); w.Code != http.StatusOK {
				t.Errorf("%s refers to %s, which has code %d", name, target, w.Code)
			}
		}
		return nil
	})
	if err != nil || files < 10 {
		t.Errorf("%d files, error %v", files, err)
	}
	for target, kind := range map[string]string{"/": "text/html", "/main.js": "javascript", "/app.css": "text/css",
		"/zoom.js": "javascript", "/icon.svg": "image/svg+xml"} {
		if got := s.get(target, "").Header().Get("Content-Type"); !strings.Contains(got, kind) {
			t.Errorf("%s has type %s", target, got)
		}
	}
	if strings.Contains(sketch.ZoomScript, "innerHTML") {
		t.Error("zoom.js sets innerHTML")
	}
}
