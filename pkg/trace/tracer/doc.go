// Package tracer runs ovn-trace beside the databases.
//
// ovn-trace follows logical flows as northd wrote them. These lack what a node adds, so package tracer fills it in between
// the southbound database and ovn-trace:
//
//	ovn-trace ──▶ relay ──▶ southbound database
//	                │ ^NODEIP_IPv4_0       ─▶ 172.18.0.11              ovn-controller completes templates
//	                │ backends=A,B         ─▶ backends=A               the backend that the question is about
//	                │ commit_lb_aff(…); /* drop */  ─▶ next;           the agent's flows let the packet pass
//	                │ ct_snat;             ─▶ next; or ip4.dst = 10.244.0.3; next;    conntrack of a gateway router
//	                │ flags.force_snat_for_lb == 1 && …  ─▶ …          the router that has balanced
//	                │ get_arp(outport, …); ─▶ eth.dst = …;             the MAC that the cluster router answers
//
// ovn-trace drops flows with templates. Its option --lb-dst also translates packets to other destinations. It ends the
// trace where a gateway router restores the address of a translated source, because only conntrack has that
// address. The first packet of a connection needs none, and for a reply the question has it. Gateway routers learn the MAC of
// the cluster router by ARP, so a trace whose next hop has no MAC is repeated with that MAC. ovn-trace does not carry from a
// router's first pipeline to its second that the load balancer hides the client, so such a trace is repeated too.
//
// The relay also leaves out rows that cannot concern the packet, because ovn-trace parses everything that it reads. The relay
// keeps the flows that it passed on, so that the rows behind them belong to the same state of the database.
package tracer
