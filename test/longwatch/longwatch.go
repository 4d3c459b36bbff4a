// Package longwatch makes the watches of a test's own cache outlast the test. The API server ends a watch after some
// minutes. The goroutines of the next watch would look like some that the tested code left behind.
package longwatch

import (
	"net/http"
	"strconv"
	"time"

	"k8s.io/client-go/rest"
)

// Of returns a copy of a configuration, whose watches last a day.
func Of(base *rest.Config) *rest.Config {
	config := rest.CopyConfig(base)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return transport{next} })
	return config
}

type transport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if query := r.URL.Query(); query.Has("watch") {
		query.Set("timeoutSeconds", strconv.Itoa(int((24 * time.Hour).Seconds())))
		r = r.Clone(r.Context())
		r.URL.RawQuery = query.Encode()
	}
	return t.next.RoundTrip(r)
}
