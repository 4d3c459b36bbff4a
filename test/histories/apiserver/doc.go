// Package apiserver is a Kubernetes API server in memory, with the features that the operator and the histories
// need. It speaks HTTP with JSON bodies, so that real clients, reflectors and caches work with it, and is called as
// an http.RoundTripper, without a socket.
//
// It implements what affects a controller's correctness: resource versions with optimistic concurrency, UIDs,
// generations, the status subresource, preconditions of deletions, merge and strategic patches, lists, and watches
// with and without initial events. It keeps every version, so that a list can return the state of some revisions ago
// (as an API server's watch cache may do). It has no validation, defaults, admission, garbage collection or
// finalizers.
package apiserver
