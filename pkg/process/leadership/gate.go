package leadership

import (
	"io"
	"net/http"
	"sync"
)

// gate admits writing requests while their leadership lasts. A goroutine of a former leadership cannot write,
// whatever it does.
type gate struct {
	next http.RoundTripper
	term *term
}

// RoundTrip implements http.RoundTripper.
func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return g.next.RoundTrip(r)
	}
	ctx, done, err := g.term.admit(r.Context())
	if err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, err
	}
	response, err := g.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		done()
		return nil, err
	}
	response.Body = &body{response.Body, sync.OnceFunc(done)}
	return response, nil
}

// WrappedRoundTripper returns the wrapped transport, for client-go.
func (g *gate) WrappedRoundTripper() http.RoundTripper { return g.next }

// body calls done when a response has been read.
type body struct {
	io.ReadCloser
	done func()
}

// Close implements io.Closer.
func (b *body) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}
