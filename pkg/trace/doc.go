// Package trace explains in Kubernetes' words what OVN does with a packet.
//
//	Question ──Legs──▶ Packet ──tracer: ovn-trace──▶ Answer ──Parse──▶ Trace ──Judge──▶ Verdict, hops
//	(objects)                   (at the databases)   (text, rows)
//
// OVN decides: ovn-trace follows a packet through ovn-northd's logical flows. This package only chooses the packets,
// reads the output, and names the rows behind the flows by their owners. It opens nothing. Package tracer runs ovn-trace
// beside the databases.
package trace
