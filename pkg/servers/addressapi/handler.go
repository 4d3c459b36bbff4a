package addressapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// bodyKey is the key of a request's capture in its context.
type bodyKey struct{}

// capture keeps what is read of a request's body, so that an error can name a field of it.
type capture struct {
	io.ReadCloser
	text     bytes.Buffer
	registry huma.Registry
}

func (c *capture) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.text.Write(p[:n])
	return n, err
}

// codedKeys hides the characters that separate the parts of huma's locations. huma removes the last part of a location
// at the last of them, so that a key with a dot, as labels have, makes the locations of all later errors wrong.
var (
	codedKeys = strings.NewReplacer(".", "\uE000", "[", "\uE001", "]", "\uE002")
	plainKeys = strings.NewReplacer("\uE000", ".", "\uE001", "[", "\uE002", "]")
)

// locate replaces huma's errors of a body by the errors of the same body with coded keys.
func (c *capture) locate(op *huma.Operation, errs []error) []error {
	isOfBody := func(err error) bool {
		var detail *huma.ErrorDetail
		return errors.As(err, &detail) && strings.HasPrefix(detail.Location, "body")
	}
	var body any
	if op.RequestBody == nil || !slices.ContainsFunc(errs, isOfBody) || json.Unmarshal(c.text.Bytes(), &body) != nil {
		return errs
	}
	var result huma.ValidateResult
	huma.Validate(c.registry, op.RequestBody.Content["application/json"].Schema, huma.NewPathBuffer([]byte("body"), len("body")),
		huma.ModeWriteToServer, coded(body), &result)
	if len(result.Errors) == 0 {
		return errs
	}
	return append(slices.DeleteFunc(slices.Clone(errs), isOfBody), result.Errors...)
}

// coded copies a JSON value with coded keys.
func coded(value any) any {
	switch value := value.(type) {
	case map[string]any:
		other := make(map[string]any, len(value))
		for key, v := range value {
			other[codedKeys.Replace(key)] = coded(v)
		}
		return other
	case []any:
		other := make([]any, len(value))
		for i, v := range value {
			other[i] = coded(v)
		}
		return other
	}
	return value
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
		body := &capture{ReadCloser: http.MaxBytesReader(w, r.Body, largestBody+1), registry: a.huma.OpenAPI().Components.Schemas}
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
