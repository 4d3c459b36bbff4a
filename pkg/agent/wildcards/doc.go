// Package wildcards observes which addresses this node's pods get as answers for DNS names that match a wildcard.
//
//	pod ──query──▶ its link ──▶ name server
//	                 │ tap: a packet socket
//	                 ▼
//	    observer: which queries match, and the addresses in their answers ─▶ NodeNetwork.status ─▶ the operator
//
// Nobody can list the names below a domain, so the operator cannot resolve a wildcard by itself. An answer counts only if
// it comes from one of the cluster's name servers and follows the query of a pod. Otherwise a pod could open the firewall
// for itself, by a name server of its own.
package wildcards
