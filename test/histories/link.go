package histories

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/weft-network/weft/test/histories/apiserver"
)

// errCut is the error that a process gets for a connection cut by a fault.
var errCut = errors.New("the history cut this connection")

// fault is a fault at a commit point.
type fault string

const (
	conflict    fault = "conflict"     // the API server refuses the write with a conflict
	cutBefore   fault = "cut-before"   // the connection is lost before the write
	cutAfter    fault = "cut-after"    // the write succeeds, but the reply is lost
	crashBefore fault = "crash-before" // the process ends before the write
	crashAfter  fault = "crash-after"  // the process ends after the write
	hold        fault = "hold"         // the write is delayed while another process takes over
)

// point counts down to a commit point.
type point struct {
	after int // commit points to let pass
	fault fault
}

// faults are armed by the history and triggered by the process.
type faults struct {
	mu     sync.Mutex
	points []point
}

func (f *faults) arm(after int, what fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.points = append(f.points, point{after, what})
}

func (f *faults) disarm() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.points = nil
}

// next is called at each commit point and returns the fault to apply there; empty for no fault.
func (f *faults) next() (found fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kept := f.points[:0]
	for _, p := range f.points {
		if p.after == 0 && found == "" {
			found = p.fault
			continue
		}
		p.after = max(0, p.after-1)
		kept = append(kept, p)
	}
	f.points = kept
	return found
}

// link is one process's connection to the API server.
type link struct {
	next    http.RoundTripper
	faults  faults
	crashed func() // called once when the process ends here
	stale   int64  // age in revisions of the first list of each kind
	// lag is the age in revisions of the first list of some resources, whose gates stay shut behind it.
	lag map[string]int64

	mu     sync.Mutex
	dead   bool
	gates  map[string]*gate       // resource -> gate of its watches
	open   map[*upstream]struct{} // watches
	writes []string               // "PATCH /apis/... {...}"
	listed map[string]bool        // resources listed before
	paused *gate                  // holds every write of a process that hangs
}

func newLink(next http.RoundTripper, stale int64, lag map[string]int64, crashed func()) *link {
	l := &link{next: next, stale: stale, lag: lag, crashed: crashed, gates: map[string]*gate{}, open: map[*upstream]struct{}{},
		listed: map[string]bool{}, paused: newGate()}
	for resource := range lag {
		l.gate(resource).shutBehindList()
	}
	return l
}

// resourceOf returns the resource of a path: what follows the version, or the namespace.
func resourceOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 2: // api, version
		parts = parts[2:]
	case parts[0] == "apis" && len(parts) > 3: // apis, group, version
		parts = parts[3:]
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	return parts[0]
}

// kill ends the process as seen from outside: it writes nothing any more. It may still read, which has no effect
// outside, because a manager that is stopped while its caches are empty would wait for them and spin.
func (l *link) kill() {
	l.mu.Lock()
	l.dead, l.stale, l.lag = true, 0, nil
	l.mu.Unlock()
	l.pause(false)
}

// pause holds all requests and replies, or releases them.
func (l *link) pause(on bool) {
	l.paused.set(on)
	for _, resource := range all {
		l.gate(resource).set(on)
	}
}

func (l *link) isDead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// gate returns the gate of a resource's watches.
func (l *link) gate(resource string) *gate {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gates[resource] == nil {
		l.gates[resource] = newGate()
	}
	return l.gates[resource]
}

// lose ends the watches of a resource. The next watch is refused because its revision is too old, so that the
// process sees the changes in between as one change, or not at all.
func (l *link) lose(resource string) {
	l.gate(resource).expire()
	l.mu.Lock()
	defer l.mu.Unlock()
	for u := range l.open {
		if u.resource == resource {
			u.close()
		}
	}
}

// RoundTrip implements http.RoundTripper.
func (l *link) RoundTrip(r *http.Request) (*http.Response, error) {
	resource := resourceOf(r.URL.Path)
	r = inJSON(r)
	switch {
	case r.Method == http.MethodGet && r.URL.Query().Get("watch") != "":
		return l.watch(r, resource)
	case r.Method == http.MethodGet, resource == "events":
		return l.next.RoundTrip(l.staled(r, resource))
	}
	return l.write(r)
}

// inJSON requests JSON only, whose watch events are lines. The metadata client would use Protobuf.
func inJSON(r *http.Request) *http.Request {
	accepted := strings.Split(r.Header.Get("Accept"), ",")
	accepted = slices.DeleteFunc(accepted, func(format string) bool { return strings.Contains(format, "protobuf") })
	r = r.Clone(r.Context())
	r.Header.Set("Accept", strings.Join(accepted, ","))
	return r
}

// write forwards a write, or applies a fault instead.
func (l *link) write(r *http.Request) (*http.Response, error) {
	if l.paused.await(); l.isDead() {
		return nil, errCut
	}
	what := l.faults.next()
	if what == crashBefore {
		l.crashed()
		l.kill()
	}
	switch what {
	case conflict:
		return apiserver.Refuse(r, http.StatusConflict, "Conflict", "the history refuses this write"), nil
	case cutBefore, crashBefore:
		return nil, errCut
	}
	l.mu.Lock()
	l.writes = append(l.writes, r.Method+" "+r.URL.Path+" "+content(r))
	l.mu.Unlock()
	response, err := l.next.RoundTrip(r)
	if what == crashAfter {
		l.crashed()
		l.kill()
	}
	if err == nil && (what == cutAfter || what == crashAfter) {
		response.Body.Close()
		return nil, errCut
	}
	return response, err
}

// content returns the beginning of a request's body.
func content(r *http.Request) string {
	if r.GetBody == nil {
		return ""
	}
	body, err := r.GetBody()
	if err != nil {
		return err.Error()
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, 1000))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// count returns the number of writes since the last call of written.
func (l *link) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.writes)
}

// written returns the writes that were sent, and resets the list.
func (l *link) written() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	writes := l.writes
	l.writes = nil
	return writes
}

// staled makes the first list of a kind an old one. Single objects bypass the cache and are always current.
func (l *link) staled(r *http.Request, resource string) *http.Request {
	isList := strings.HasSuffix(r.URL.Path, "/"+resource)
	l.mu.Lock()
	defer l.mu.Unlock()
	query := r.URL.Query()
	first := isList && (query.Get("watch") != "" || query.Get("resourceVersion") == "0") && !l.listed[resource]
	ago := max(l.stale, l.lag[resource])
	if !first || ago == 0 {
		return r
	}
	l.listed[resource] = true
	r = r.Clone(r.Context())
	r.Header.Set(apiserver.StaleHeader, strconv.FormatInt(ago, 10))
	return r
}

// upstream is one watch at the server.
type upstream struct {
	resource string
	body     io.ReadCloser
	to       *io.PipeWriter
}

func (u *upstream) close() {
	u.to.CloseWithError(io.ErrUnexpectedEOF)
	u.body.Close()
}

// watch forwards events as the resource's gate allows.
func (l *link) watch(r *http.Request, resource string) (*http.Response, error) {
	g := l.gate(resource)
	if r.URL.Query().Get("resourceVersion") != "" && g.isExpired() {
		return apiserver.Refuse(r, http.StatusGone, "Expired", "too old resource version"), nil
	}
	response, err := l.next.RoundTrip(l.staled(r, resource))
	if err != nil || response.StatusCode != http.StatusOK {
		return response, err
	}
	reader, writer := io.Pipe()
	u := &upstream{resource, response.Body, writer}
	l.mu.Lock()
	l.open[u] = struct{}{}
	l.mu.Unlock()
	go func() {
		writer.CloseWithError(g.pass(u.body, writer))
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.open, u)
	}()
	passed := *response
	passed.Body = &body{reader, u}
	return &passed, nil
}

// body closes both ends of a watch.
type body struct {
	io.Reader
	upstream *upstream
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.upstream.close()
	return nil
}

// gate holds, duplicates or expires the watch events of one resource.
type gate struct {
	mu      sync.Mutex
	changed *sync.Cond
	shut    bool
	behind  bool // shut after the first list
	twice   bool
	expired bool
}

func newGate() *gate {
	g := &gate{}
	g.changed = sync.NewCond(&g.mu)
	return g
}

// set holds events back, or releases them.
func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut, g.behind = shut, false
	g.changed.Broadcast()
}

// shutBehindList lets the first list pass, and holds back what follows.
func (g *gate) shutBehindList() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.behind = true
}

// listPassed is called when a first list has passed.
func (g *gate) listPassed() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut, g.behind = g.shut || g.behind, false
}

func (g *gate) double(on bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.twice = on
}

func (g *gate) expire() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.expired = true
}

// isExpired returns true once after expire.
func (g *gate) isExpired() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.expired
	g.expired = false
	return was
}

// await returns when events may pass, and whether to send each twice.
func (g *gate) await() (twice bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.shut {
		g.changed.Wait()
	}
	return g.twice
}

// pass copies events, one line each.
func (g *gate) pass(from io.Reader, to io.Writer) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return err
		}
		times := 1
		if g.await() && !strings.Contains(string(line), `"BOOKMARK"`) {
			times = 2
		}
		for range times {
			if _, err := to.Write(line); err != nil {
				return err
			}
		}
		if strings.Contains(string(line), `"k8s.io/initial-events-end"`) {
			g.listPassed()
		}
	}
}
