package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/weft-network/weft/test/poll"
)

func newHealth() *ProxyHealth {
	return NewProxyHealth(ProxyHealthOptions{Now: time.Now, Node: func(context.Context) *corev1.Node { return &corev1.Node{} }})
}

// probe is a ProxyHealth with a clock and a Node of its own.
type probe struct {
	*ProxyHealth
	now    time.Time
	node   *corev1.Node
	took   []time.Duration
	synced time.Time
}

func newProbe() *probe {
	p := &probe{now: time.Unix(1000, 0).UTC(), node: &corev1.Node{}}
	p.ProxyHealth = NewProxyHealth(ProxyHealthOptions{
		Now: func() time.Time { return p.now }, Node: func(context.Context) *corev1.Node { return p.node },
		Observe: func(took time.Duration) { p.took = append(p.took, took) }, Synced: func(at time.Time) { p.synced = at }})
	return p
}

func (p *probe) pass(seconds int) { p.now = p.now.Add(time.Duration(seconds) * time.Second) }

func (p *probe) get(path string) (int, string) {
	w := httptest.NewRecorder()
	p.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, strings.TrimSpace(w.Body.String())
}

var web, other = types.NamespacedName{Namespace: "demo", Name: "web"}, types.NamespacedName{Namespace: "demo", Name: "other"}

// The answers are kube-proxy's (k8s.io/kubernetes, pkg/proxy/healthcheck): the same fields, and a last update of now while all is good.
func TestProxyHealthAnswersAsKubeProxyDoes(t *testing.T) {
	p := newProbe()
	p.begin()
	p.done([]corev1.IPFamily{corev1.IPv4Protocol})
	p.pass(5)
	status := `"healthy":true,"status":{"IPv4":{"lastUpdated":"1970-01-01T00:16:40Z","healthy":true}}}`
	for path, want := range map[string]string{
		"/healthz": `{"lastUpdated":"1970-01-01T00:16:45Z","currentTime":"1970-01-01T00:16:45Z","nodeEligible":true,` + status,
		"/livez":   `{"lastUpdated":"1970-01-01T00:16:45Z","currentTime":"1970-01-01T00:16:45Z",` + status,
	} {
		if code, body := p.get(path); code != http.StatusOK || body != want {
			t.Errorf("%s: %d %s\nwant %s", path, code, body, want)
		}
	}
	p.queue(web, time.Time{}, true)
	p.pass(60)
	want := `{"lastUpdated":"1970-01-01T00:16:40Z","currentTime":"1970-01-01T00:17:45Z","nodeEligible":true,"healthy":false,` +
		`"status":{"IPv4":{"lastUpdated":"1970-01-01T00:16:40Z","healthy":false}}}`
	if code, body := p.get("/healthz"); code != http.StatusServiceUnavailable || body != want {
		t.Errorf("a late change: %d %s\nwant %s", code, body, want)
	}
	w := httptest.NewRecorder()
	p.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthz", nil))
	for header, want := range map[string]string{"Content-Type": "application/json", "X-Content-Type-Options": "nosniff"} {
		if have := w.Header().Get(header); have != want {
			t.Errorf("%s: %q", header, have)
		}
	}
}

// A node is healthy while every change is written within its time, and from the start as long.
func TestANodeIsHealthyWhileItsServicesAreProgrammed(t *testing.T) {
	p := newProbe()
	expect := func(what string, want bool) {
		t.Helper()
		if have := p.isHealthy(); have != want {
			t.Errorf("%s: healthy is %v", what, have)
		}
	}
	p.pass(59)
	expect("the start", true)
	p.pass(1)
	expect("a start without a write", false)
	p.begin()
	p.done(nil)
	expect("a write", true)
	p.queue(web, time.Time{}, true)
	p.queue(other, time.Time{}, false)
	p.pass(30)
	p.begin() // fails
	p.pass(30)
	expect("a failed write", false)
	p.begin()
	p.queue(other, time.Time{}, true) // while the write is under way
	p.done(nil)
	expect("a repeated write", true)
	p.pass(60)
	expect("a change that came after the write began", false)
	p.begin()
	p.done(nil)
	expect("the next write", true)
	p.pass(3600)
	expect("a node without changes", true)
}

// A node that somebody deletes gets no connections of load balancers, but lives.
func TestANodeThatIsDeletedIsNotEligible(t *testing.T) {
	for name, node := range map[string]*corev1.Node{
		"no Node":           nil,
		"a deletion":        {ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}}},
		"an autoscaler":     {Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler"}}}},
		"another taint: ok": {Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "DeletionCandidateOfClusterAutoscaler"}}}},
	} {
		p, want := newProbe(), http.StatusServiceUnavailable
		if p.node = node; strings.HasSuffix(name, "ok") {
			want = http.StatusOK
		}
		if code, body := p.get("/healthz"); code != want || strings.Contains(body, `"nodeEligible":true`) != (want == http.StatusOK) {
			t.Errorf("%s: %d %s", name, code, body)
		}
		if code, body := p.get("/livez"); code != http.StatusOK || strings.Contains(body, "nodeEligible") {
			t.Errorf("%s: /livez %d %s", name, code, body)
		}
	}
}

// Each change of endpoints is measured once, from its cause until the host has it. Causes from before the start are not.
func TestChangesOfEndpointsAreMeasured(t *testing.T) {
	p := newProbe()
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	write := func() { p.begin(); p.done(nil) }
	p.queue(web, at(900), true)
	write()
	p.pass(10)
	p.queue(web, at(1008), true)
	p.queue(other, at(1009), false) // OVN alone has it
	write()
	p.queue(web, at(1008), true)
	p.queue(other, at(1009), true)
	write()
	p.queue(web, at(1010), true)
	p.begin() // fails
	p.pass(10)
	p.queue(web, at(1019), true)
	write()
	p.forget(web)
	if want := []time.Duration{2 * time.Second, 10 * time.Second}; !slices.Equal(p.took, want) {
		t.Errorf("measured %v, want %v", p.took, want)
	}
	if !p.synced.Equal(at(1020)) || len(p.seen) != 1 {
		t.Errorf("synced at %v, remembers %v", p.synced, p.seen)
	}
}

// A health check of a service fails, too, while the services are not programmed.
func TestHealthChecksNeedProgrammedServices(t *testing.T) {
	for healthy, want := range map[bool]int{true: http.StatusOK, false: http.StatusServiceUnavailable} {
		w := httptest.NewRecorder()
		check := &healthCheck{name: web, ready: localEndpoints{ipv4: 1}, healthy: func() bool { return healthy }}
		check.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if w.Code != want || !strings.Contains(w.Body.String(), fmt.Sprintf(`"serviceProxyHealthy":%v`, healthy)) {
			t.Errorf("%v: %d %s", healthy, w.Code, w.Body)
		}
	}
}

// Each family has the number of its endpoints.
func TestHealthChecksAnswerByFamily(t *testing.T) {
	check := &healthCheck{name: web, ready: localEndpoints{ipv4: 2}, healthy: func() bool { return true }}
	for address, want := range map[string]string{
		"127.0.0.1": `200 {"service":{"namespace":"demo","name":"web"},"localEndpoints":2,"serviceProxyHealthy":true}`,
		"::1":       `503 {"service":{"namespace":"demo","name":"web"},"localEndpoints":0,"serviceProxyHealthy":true}`,
	} {
		w := httptest.NewRecorder()
		local := context.WithValue(t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP(address)})
		check.ServeHTTP(w, httptest.NewRequestWithContext(local, http.MethodGet, "/", nil))
		if have := strings.TrimSpace(fmt.Sprint(w.Code, " ", w.Body)); have != want {
			t.Errorf("%s: %s, want %s", address, have, want)
		}
	}
}

// A taken port, such as that of a kube-proxy that still runs, is one event, and is served when it comes free.
func TestATakenHealthPort(t *testing.T) {
	taken, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf(":%d", taken.Addr().(*net.TCPAddr).Port)
	recorder := events.NewFakeRecorder(9)
	p := newProbe()
	p.options.Taken = ReportTaken(recorder, "n1")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Serve(address)(ctx) }()
	if event := <-recorder.Events; !strings.Contains(event, "ProxyHealthPortTaken") || !strings.Contains(event, address) {
		t.Errorf("event %q", event)
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	get := func() error {
		response, err := http.Get("http://127.0.0.1" + address + "/healthz")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if body, err := io.ReadAll(response.Body); err != nil || !strings.Contains(string(body), `"nodeEligible":true`) {
			return errors.Join(err, errors.New(string(body)))
		}
		return nil
	}
	poll.Eventually(t, time.Minute, get)
	cancel()
	if err := <-done; err != nil || get() == nil {
		t.Errorf("after the end: %v", err)
	}
	if len(recorder.Events) != 0 {
		t.Errorf("another event: %s", <-recorder.Events)
	}
}
