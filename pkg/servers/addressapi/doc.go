// Package addressapi is the HTTPS API for IPPools and FloatingIPs. It lists and releases addresses, and manages pools.
// It never gives an address to a pod.
//
//	client ── HTTPS, bearer token ──▶ 401 TokenReview ──▶ 403 SubjectAccessReview ──▶ 400 schema ──▶ typed handler
//	                                                                         reads: informer caches ◀─┤
//	                                                 writes: live read, update with resourceVersion ◀─┘
//
// Handlers are typed Go functions. The OpenAPI document is generated from their types, and each request is validated
// against it before the handler runs. Kubernetes' RBAC decides on each request, so that a user can do by this API what
// the same user can do by kubectl.
package addressapi
