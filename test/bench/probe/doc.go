// Package probe looks at servers from outside: the CPU time and memory of processes, an OVSDB connection without a library, and agents that are
// nothing but the monitors that a node has of the southbound database.
package probe
