package addressapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/servers/addressapi"
)

// fuzzer sends requests that are made of the served document.
type fuzzer struct {
	*world
	generator
	// seen counts responses: operation and status -> count.
	seen map[string]map[int]int
	// created counts the pools that unused named.
	created int
}

// request is a request before it is sent.
type request struct {
	path   map[string]string
	query  url.Values
	header http.Header
	body   any // nil: none
	raw    string
}

// TestAPIKeepsToItsDocument sends requests that the document permits, and requests that it does not permit in one place.
// Each response must be documented, and a refusal must name the place.
func TestAPIKeepsToItsDocument(t *testing.T) {
	w := newWorld(t, "fuzz")
	w.Cleanup(w.deleteCreatedPools())
	w.pool("fuzz", "203.0.113.32/27", "2001:db8:3::/112")
	for i := range 12 {
		holder := w.kept("db", fmt.Sprintf("db-%d", i))
		if i%3 == 0 {
			holder, _ = w.used("db", fmt.Sprintf("db-%d", i))
		}
		w.hold("fuzz", fmt.Sprintf("203.0.113.%d", 33+i), holder)
	}
	w.listed("pool=fuzz", 12)
	d, err := readDocument(w.call("", "GET", "/openapi.json", nil).text)
	w.do(err)
	f := &fuzzer{w, generator{d, memory{}}, map[string]map[int]int{}, 0}
	nobody := w.user("nobody")
	for i := range 8 {
		w.pool(fmt.Sprintf("fuzz-%d", i), fmt.Sprintf("203.0.113.%d/30", 96+4*i))
	}
	for _, path := range []string{"/v1/addresses?pool=fuzz", "/v1/addresses?pool=fuzz&limit=5", "/v1/pools?text=fuzz&limit=5",
		"/v1/pools?text=fuzz"} {
		var body any
		w.wants(w.call(w.all, "GET", path, nil), http.StatusOK).into(w, &body)
		f.learn(body)
	}
	for _, op := range d.operations {
		t.Run(op.id, func(t *testing.T) {
			t.Run("valid", rapid.MakeCheck(func(t *rapid.T) { f.valid(t, op) }))
			t.Run("invalid", rapid.MakeCheck(func(t *rapid.T) { f.invalid(t, op) }))
			t.Run("unknown user", rapid.MakeCheck(func(t *rapid.T) { f.unknown(t, op, nobody) }))
		})
	}
	f.report(t)
}

// deleteCreatedPools returns a function that deletes the pools that do not exist yet. Pools of random ranges would overlap
// the pools of other tests.
func (w *world) deleteCreatedPools() func() {
	list := func(ctx context.Context) (all networkv1alpha1.IPPoolList) {
		w.Helper()
		w.do(api.List(ctx, &all))
		return all
	}
	before := map[string]bool{}
	for _, pool := range list(w.Context()).Items {
		before[pool.Name] = true
	}
	return func() {
		for _, pool := range list(context.Background()).Items {
			if !before[pool.Name] {
				w.deletePool(&pool)
			}
		}
	}
}

// valid sends a request that the document permits.
func (f *fuzzer) valid(t *rapid.T, op operation) {
	r := f.draw(t, op)
	f.current(t, op, r)
	f.unused(t, op, r)
	if r.body != nil {
		if ok, err := f.permits(op, r.body); err != nil || !ok {
			t.Fatalf("the generator made a body that the document does not permit (%v): %v", err, r.body)
		}
	}
	reply := f.run(t, op, r)
	var body any
	if json.Unmarshal(reply.text, &body) == nil && reply.status < http.StatusBadRequest {
		f.learn(body)
	}
	cursor := r.query.Has("cursor") // it may be of another order
	if reply.status == http.StatusBadRequest && !cursor || reply.status == http.StatusUnauthorized || reply.status == http.StatusForbidden {
		t.Fatalf("%s: a valid request has status %d: %+v: %s", op.id, reply.status, r, reply.text)
	}
}

// current makes some requests name the current version of an object that exists.
func (f *fuzzer) current(t *rapid.T, op operation, r *request) {
	body, _ := r.body.(map[string]any)
	if body["resourceVersion"] == nil || !rapid.Bool().Draw(t, "current") {
		return
	}
	var pool map[string]any
	at := f.call(f.all, "GET", strings.ReplaceAll(op.path, "{name}", url.PathEscape(r.path["name"])), nil)
	if at.status == http.StatusOK && json.Unmarshal(at.text, &pool) == nil {
		body["resourceVersion"], body["spec"] = pool["resourceVersion"], pool["spec"]
	}
}

// unused makes some requests create a pool with an unused name. Random bodies have a name in use, or ranges that no pool
// may have, so often that a run could create none.
func (f *fuzzer) unused(t *rapid.T, op operation, r *request) {
	if op.id != "create-pool" || !rapid.Bool().Draw(t, "unused") {
		return
	}
	f.created++
	r.body = map[string]any{"name": fmt.Sprintf("fuzz-new-%d", f.created), "spec": map[string]any{
		"location": "NAT", "ranges": []any{map[string]any{"addresses": fmt.Sprintf("2001:db8:4:%x::/112", f.created)}}}}
}

// invalid sends a request that the document does not permit in one place.
func (f *fuzzer) invalid(t *rapid.T, op operation) {
	r := f.draw(t, op)
	var choices []func() (status int, where string)
	refuse := func(c wrong, change func()) {
		choices = append(choices, func() (int, string) {
			change()
			return http.StatusBadRequest, c.where
		})
	}
	for _, p := range op.parameters {
		for _, c := range wrongTexts(p) {
			refuse(c, func() {
				if p.in == "path" {
					r.path[p.name] = c.text
				} else {
					r.query.Set(p.name, c.text)
				}
			})
		}
	}
	refuse(wrong{where: "no-such"}, func() { r.query.Set("no-such", "1") })
	if op.body != nil {
		for _, c := range f.wrongBodies(op.body, r.body) {
			refuse(c, func() { r.body = c.body })
		}
		choices = append(choices, f.rawBodies(r)...)
	}
	status, where := rapid.SampledFrom(choices).Draw(t, "choice")()
	if status == http.StatusBadRequest && strings.HasPrefix(where, "#/") {
		if ok, err := f.permits(op, r.body); err != nil || ok {
			t.Fatalf("the body is valid by the document, at %s (%v): %v", where, err, r.body)
		}
	}
	reply := f.run(t, op, r)
	var p addressapi.Problem
	if err := json.Unmarshal(reply.text, &p); err != nil || reply.status != status {
		t.Fatalf("%s: status %d, not %d for %s in %+v: %s", op.id, reply.status, status, where, r, reply.text)
	}
	named := func(field addressapi.ProblemField) bool { return field.Pointer+field.Parameter == where }
	if where != "" && !slices.ContainsFunc(p.Errors, named) {
		t.Fatalf("%s: the error does not name %s in %+v: %s", op.id, where, r, reply.text)
	}
}

// rawBodies are bodies that are no JSON of the right kind at all.
func (f *fuzzer) rawBodies(r *request) []func() (int, string) {
	raw := func(status int, where, text, kind string) func() (int, string) {
		return func() (int, string) {
			r.raw = text
			r.header.Set("Content-Type", kind)
			return status, where
		}
	}
	return []func() (int, string){
		raw(http.StatusBadRequest, "#", `{"`, "application/json"),
		raw(http.StatusBadRequest, "#", "{}}", "application/json"),
		raw(http.StatusBadRequest, "#", "null", "application/json"),
		raw(http.StatusBadRequest, "#", strings.Repeat("[", 20000), "application/json"),
		raw(http.StatusUnsupportedMediaType, "#", "a: b", "application/yaml"),
		raw(http.StatusRequestEntityTooLarge, "", strings.Repeat(" ", 300<<10), "application/json"),
	}
}

// unknown sends a valid request without a token, with a wrong one, and by a user without rights.
func (f *fuzzer) unknown(t *rapid.T, op operation, nobody string) {
	r := f.draw(t, op)
	c := rapid.SampledFrom([]struct {
		header string
		status int
	}{{"", 401}, {"Bearer wrong", 401}, {"Basic " + f.all, 401}, {"Bearer " + nobody, 403}}).Draw(t, "user")
	r.header.Set("Authorization", c.header)
	if reply := f.run(t, op, r); reply.status != c.status {
		t.Fatalf("%s: status %d, not %d, with Authorization: %.12s: %s", op.id, reply.status, c.status, c.header, reply.text)
	}
}

// draw draws a request that the document permits.
func (f *fuzzer) draw(t *rapid.T, op operation) *request {
	r := &request{path: map[string]string{}, query: url.Values{}, header: http.Header{"Authorization": {"Bearer " + f.all}}}
	for _, p := range op.parameters {
		known := p.name != "cursor" || len(f.memory["cursor"]) > 0 // the document cannot say what a cursor is
		switch {
		case p.in == "path":
			r.path[p.name] = fmt.Sprint(f.value(t, p.name, p.schema))
		case known && (p.required || rapid.IntRange(0, 3).Draw(t, "has "+p.name) == 0):
			if p.name == "cursor" {
				r.query.Set(p.name, rapid.SampledFrom(f.memory["cursor"]).Draw(t, p.name))
			} else {
				r.query.Set(p.name, fmt.Sprint(f.value(t, p.name, p.schema)))
			}
		}
	}
	if op.body != nil {
		r.body = f.value(t, "body", op.body)
	}
	return r
}

// run sends a request, and checks its response against the document.
func (f *fuzzer) run(t *rapid.T, op operation, r *request) response {
	path := op.path
	for name, value := range r.path {
		path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(value))
	}
	if len(r.query) > 0 {
		path += "?" + r.query.Encode()
	}
	var body io.Reader = http.NoBody
	switch {
	case r.raw != "":
		body = strings.NewReader(r.raw)
	case r.body != nil:
		text, err := json.Marshal(r.body)
		if err != nil {
			t.Fatal(err)
		}
		r.header.Set("Content-Type", "application/json")
		body = strings.NewReader(string(text))
	}
	reply, err := f.send(op.method, path, r.header, body)
	if err != nil {
		t.Fatal(err)
	}
	if f.seen[op.id] == nil {
		f.seen[op.id] = map[int]int{}
	}
	f.seen[op.id][reply.status]++
	if err := f.check(op, reply); err != nil {
		t.Fatalf("%v\nrequest: %s %s %+v", err, op.method, path, r)
	}
	return reply
}

// report logs what was seen. Each operation must have succeeded at least once, or its success was not checked.
func (f *fuzzer) report(t *testing.T) {
	total := 0
	for _, op := range f.operations {
		success := false
		for status, count := range f.seen[op.id] {
			total += count
			success = success || status < http.StatusBadRequest
		}
		t.Logf("%s: %v", op.id, f.seen[op.id])
		if !success && !t.Failed() {
			t.Errorf("%s never succeeded", op.id)
		}
	}
	t.Logf("%d requests", total)
}
