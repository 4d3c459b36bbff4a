// Package testbed is what load tests in a lab share: the lab's life around a test binary, a client of its API server, pods that have a port
// and no sandbox, and a look into the agent's process.
package testbed
