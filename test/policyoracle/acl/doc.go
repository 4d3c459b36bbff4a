// Package acl decides what the ACLs of a northbound database do to the first packet of a connection. It knows the database's schema, the
// language of matches (ovn-sb(5), Logical_Flow.match) and the order of stages (ovn-nb(5), ACL), and nothing of what wrote the rows.
//
//	a packet of A to B on one switch:      ACLs from A, ACLs from A after load balancing, ACLs to B
//	to another switch, or outside:         the same, with the router's port as B
//	from another switch, or outside:       the same, with the router's port as A
//
// Where OVN would leave out a rule with a warning in a log, or take either of two rules, the answer here is an error.
package acl
