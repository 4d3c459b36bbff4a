// Package acl decides what the ACLs of a northbound database do to a packet of a connection's opener. It implements the
// database's schema, the language of matches (ovn-sb(5), Logical_Flow.match), the order of stages (ovn-nb(5), ACL) and
// what ovn-northd does with a blocked connection, and does not depend on the code that wrote the rows.
//
//	a packet of A to B on one switch:      ACLs from A, ACLs from A after load balancing, ACLs to B
//	to another switch, or outside:         the same, with the router's port as B
//	from another switch, or outside:       the same, with the router's port as A
//
// If OVN would ignore a rule with a warning in its log, or choose either of two rules, the answer here is an error.
package acl
