// Package pki issues the certificates with which the programs of OVN authenticate to each other where the operator
// runs them. Each database has its own authority, so that no key of a node opens the northbound database.
//
//	northbound authority ─▶ server, operator
//	southbound authority ─▶ server, agents (one pair: they can only read), and a chassis for each node, whose key stays on the node
package pki
