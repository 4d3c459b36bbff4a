package addressapi

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// largestBody bounds a request's body in bytes. The largest valid pool is far below.
const largestBody = 256 << 10

// Options are what an API needs.
type Options struct {
	// Client reads IPPools and FloatingIPs from caches, and writes.
	Client client.Client
	// Live reads past the caches, before a write.
	Live client.Reader
	// Audiences lists the accepted audiences: a token must be for at least one. Empty: the audiences of the API server.
	Audiences []string
	// Now is the clock, for the history of addresses.
	Now func() time.Time
	// Observe, if set, is called for each request with its operation, its status code and how long it took.
	Observe func(operation string, status int, took time.Duration)
	Log     logr.Logger
}

// API is the HTTP handler. It is safe for concurrent use.
type API struct {
	client    client.Client
	live      client.Reader
	audiences []string
	now       func() time.Time
	observe   func(string, int, time.Duration)
	log       logr.Logger
	mux       *http.ServeMux
	huma      huma.API
}

// New returns an API, and its OpenAPI document as YAML.
func New(o Options) (api *API, document []byte, err error) {
	a := &API{client: o.Client, live: o.Live, audiences: o.Audiences, now: o.Now, observe: o.Observe, log: o.Log, mux: http.NewServeMux()}
	config := huma.Config{
		OpenAPI: &huma.OpenAPI{
			Info: &huma.Info{Title: "Weft addresses", Version: "v1", License: &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
				Description: "Lists and releases floating IPs, and manages their pools. Each request needs a bearer token of Kubernetes. " +
					"Kubernetes' RBAC decides what a user may do. Lists are sorted by sort, which a minus reverses. Objects that are created or " +
					"deleted between two pages do not shift the pages."},
			Components: &huma.Components{SecuritySchemes: map[string]*huma.SecurityScheme{
				"kubernetes": {Type: "http", Scheme: "bearer", Description: "A token of Kubernetes, such as that of a ServiceAccount."}}},
			Security: []map[string][]string{{"kubernetes": {}}},
		},
		Formats:                      map[string]huma.Format{"application/json": huma.DefaultJSONFormat, "json": huma.DefaultJSONFormat},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
	}
	a.huma = humago.New(a.mux, config)
	a.addresses()
	a.pools()
	text, err := a.huma.OpenAPI().MarshalJSON()
	if err != nil {
		return nil, nil, err
	}
	if document, err = a.huma.OpenAPI().YAML(); err != nil {
		return nil, nil, err
	}
	a.serveDocument("/openapi.json", "application/json", text)
	a.serveDocument("/openapi.yaml", "application/yaml", document)
	return a, document, nil
}

// operation is what is documented of a handler.
type operation struct {
	id, method, path, tag, summary, description string
	needs                                       right
	// errors lists the status codes of this operation. The codes of all operations are added.
	errors []int
	// success is the status code without an error; 0: 200, or 204 without a body.
	success int
}

// register adds a typed handler to an API.
func register[In, Out any](a *API, op operation, handle func(context.Context, *In) (*Out, error)) {
	codes := append([]int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusInternalServerError,
		http.StatusServiceUnavailable}, op.errors...)
	if op.method == http.MethodPost || op.method == http.MethodPut {
		codes = append(codes, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	slices.Sort(codes)
	huma.Register(a.huma, huma.Operation{OperationID: op.id, Method: op.method, Path: op.path, Tags: []string{op.tag}, Summary: op.summary,
		Description:   op.description + "\n\nNeeds the right to " + op.needs.String() + ".",
		DefaultStatus: op.success, MaxBodyBytes: largestBody, BodyReadTimeout: bodyTime, Responses: a.problems(codes),
		Extensions:  map[string]any{"x-kubernetes-right": map[string]string{"verb": op.needs.verb, "resource": op.needs.resource}},
		Middlewares: huma.Middlewares{a.measure(op.id), a.authorize(op.needs)},
	}, func(ctx context.Context, in *In) (*Out, error) {
		out, err := handle(ctx, in)
		if own := (*Problem)(nil); err != nil && !errors.As(err, &own) {
			a.log.Error(err, "cannot answer a request", "operation", op.id)
			return nil, problem(http.StatusInternalServerError, err.Error())
		}
		return out, err
	})
}

// problems documents the responses for errors.
func (a *API) problems(codes []int) map[string]*huma.Response {
	registry := a.huma.OpenAPI().Components.Schemas
	responses := map[string]*huma.Response{}
	for _, code := range codes {
		responses[strconv.Itoa(code)] = &huma.Response{Description: http.StatusText(code), Content: map[string]*huma.MediaType{
			problemType: {Schema: registry.Schema(problemStruct, true, "Problem")}}}
	}
	return responses
}

// measure returns a middleware that reports each request.
func (a *API) measure(operation string) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		start := time.Now()
		next(ctx)
		if a.observe != nil {
			a.observe(operation, ctx.Status(), time.Since(start))
		}
	}
}
