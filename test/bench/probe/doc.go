// Package probe measures servers from outside. It reads the CPU time and memory of processes, has an OVSDB
// connection without a library, and simulates a node's agents by their monitors of the southbound database.
package probe
