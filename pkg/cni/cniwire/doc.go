// Package cniwire is the protocol between weft-cni, which the container runtime executes, and weft-agent, which does
// the work:
//
//	runtime ──exec──▶ weft-cni ──unix stream socket──▶ weft-agent
//	                     │  uint32 length │ Request JSON ▶ │
//	                     │ ◀ uint32 length │ Response JSON │
//
// A connection carries exactly one request and one response. Each is a JSON document of at most MaxMessage bytes,
// preceded by its length in network byte order. The client keeps its sending side open while it waits. If the runtime
// gives up, the agent's next read ends, so the agent notices.
//
// The package is part of weft-cni and therefore depends only on the CNI types.
package cniwire
