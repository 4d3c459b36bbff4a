package apiserver

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
)

// staleness returns how many revisions old the requested state is.
func staleness(r *http.Request) int64 {
	ago, _ := strconv.ParseInt(r.Header.Get(StaleHeader), 10, 64) // 0 if absent
	return ago
}

// watch streams a resource's changes until the request's context ends.
func (s *Server) watch(r *http.Request, t target) *http.Response {
	reader, writer := io.Pipe()
	go func() { writer.CloseWithError(s.stream(r, t, json.NewEncoder(writer))) }()
	context := r.Context()
	go func() {
		<-context.Done()
		writer.CloseWithError(io.EOF)
	}()
	return &http.Response{Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": []string{"application/json"}}, Body: reader, ContentLength: -1, Request: r}
}

func (s *Server) stream(r *http.Request, t target, to *json.Encoder) error {
	query := r.URL.Query()
	after, _ := strconv.ParseInt(query.Get("resourceVersion"), 10, 64) // 0 if absent: everything
	if query.Get("sendInitialEvents") == "true" {
		var err error
		if after, err = s.initial(r, t, after, to); err != nil {
			return err
		}
	}
	for {
		found, last, more := s.store.since(t.kind.Resource, after)
		for _, change := range found {
			if t.namespace == "" || change.object.meta()["namespace"] == t.namespace {
				if err := to.Encode(event(change.event, shape(r, change.object))); err != nil {
					return err
				}
			}
		}
		after = last
		select {
		case <-more:
		case <-r.Context().Done():
			return io.EOF
		}
	}
}

// initial streams the existing objects and the bookmark after them. It never returns an older state than the client
// has seen.
func (s *Server) initial(r *http.Request, t target, seen int64, to *json.Encoder) (at int64, err error) {
	objects, at := s.store.list(t.kind.Resource, staleness(r))
	if at < seen {
		objects, at = s.store.list(t.kind.Resource, 0)
	}
	for _, o := range objects {
		if err := to.Encode(event("ADDED", shape(r, o))); err != nil {
			return 0, err
		}
	}
	bookmark := object{"kind": t.kind.Kind, "apiVersion": t.kind.APIVersion, "metadata": map[string]any{
		"resourceVersion": strconv.FormatInt(at, 10), "annotations": map[string]any{"k8s.io/initial-events-end": "true"}}}
	return at, to.Encode(event("BOOKMARK", shape(r, bookmark)))
}

func event(kind string, o object) map[string]any { return map[string]any{"type": kind, "object": o} }
