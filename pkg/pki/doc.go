// Package pki makes the certificates by which the programs of OVN know each other where the operator runs them. Each database has an authority
// of its own, so that nothing that a node has opens the northbound one.
//
//	northbound authority ─▶ server, operator
//	southbound authority ─▶ server, agents (one pair: they can only read), and a chassis for each node, whose key stays on the node
package pki
