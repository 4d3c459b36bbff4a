// Package apiserver is a Kubernetes API server in memory, as far as the operator and the histories need one: it speaks HTTP with
// JSON bodies, so that real clients, reflectors and caches work on it, and is called without a socket, as an http.RoundTripper.
//
// It has what decides whether a controller is right: resource versions with optimistic concurrency, UIDs, generations, the
// status subresource, preconditions of deletions, merge and strategic patches, lists, watches with and without initial events,
// and a history of every version, from which a list can be served as it was some revisions ago (as an API server's watch
// cache may do). It has no validation, no defaults, no admission, no garbage collection and no finalizers.
package apiserver
