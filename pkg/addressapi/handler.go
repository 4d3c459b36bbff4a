package addressapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
)

// capture keeps what is read of a request's body, so that an error can name a field of it.
type capture struct {
	io.ReadCloser
	text bytes.Buffer
}

func (c *capture) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.text.Write(p[:n])
	return n, err
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	handler, pattern := a.mux.Handler(r)
	if pattern == "" {
		refuseUnrouted(w, r, handler)
		return
	}
	if r.Body != nil {
		body := &capture{ReadCloser: http.MaxBytesReader(w, r.Body, largestBody+1)}
		r = r.WithContext(context.WithValue(r.Context(), bodyKey{}, body))
		r.Body = body
	}
	a.mux.ServeHTTP(w, r)
}

// discard is a response whose body is not sent.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(status int)      { d.status = status }

// refuseUnrouted reports a path or a method that no operation has as a Problem instead of text.
func refuseUnrouted(w http.ResponseWriter, r *http.Request, handler http.Handler) {
	d := &discard{header: http.Header{}, status: http.StatusOK}
	handler.ServeHTTP(d, r)
	p := problemf(d.status, "there is no operation %s %s; /openapi.json lists all", r.Method, r.URL.Path)
	if allowed := d.header.Get("Allow"); allowed != "" {
		w.Header().Set("Allow", allowed)
	}
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // a client that went away reads nothing
}

// serveDocument serves the OpenAPI document at a path.
func (a *API) serveDocument(path, contentType string, text []byte) {
	a.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		_, _ = w.Write(text) // a client that went away reads nothing
	})
}
