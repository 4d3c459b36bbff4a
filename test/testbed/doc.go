// Package testbed is shared by load tests in a lab. It starts and removes the lab around a test binary, and provides
// a client of its API server, pods with a port but without a sandbox, and access to the agent's process.
package testbed
