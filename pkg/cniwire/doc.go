// Package cniwire is the conversation between weft-cni, which the container
// runtime executes, and weft-agent, which does the work:
//
//	runtime ──exec──▶ weft-cni ──unix stream socket──▶ weft-agent
//	                     │  uint32 length │ Request JSON ▶ │
//	                     │ ◀ uint32 length │ Response JSON │
//
// A connection carries exactly one request and one response. Each is a JSON
// document of at most MaxMessage bytes after its length in network byte order.
// The client keeps its sending side open while it waits, so that the agent sees
// a runtime that gave up: the next read ends.
//
// The package is part of weft-cni and therefore depends on nothing but the CNI
// types.
package cniwire
