package main

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// failing returns the URL of a server that succeeds from the n-th request on.
func failing(t *testing.T, n int32) string {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) < n {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		identify(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestTriesAreCountedAndSpaced(t *testing.T) {
	interval := 20 * time.Millisecond
	start := time.Now()
	got := checkAll(t.Context(), []target{{Name: "late", HTTP: failing(t, 3)}},
		effort{timeout: time.Minute, attempts: 5, interval: interval, parallel: 1})
	if len(got) != 1 || !got[0].OK || got[0].Tries != 3 || got[0].Error != "" || got[0].Answer == nil {
		t.Errorf("%+v", got)
	}
	if elapsed := time.Since(start); elapsed < 2*interval {
		t.Errorf("three tries took %s", elapsed)
	}
}

func TestTriesEnd(t *testing.T) {
	got := checkAll(t.Context(), []target{{Name: "never", HTTP: failing(t, 100)}}, effort{timeout: time.Minute, attempts: 2})
	if len(got) != 1 || got[0].OK || got[0].Tries != 2 || got[0].Error != "status 503 Service Unavailable" {
		t.Errorf("%+v", got)
	}
}
