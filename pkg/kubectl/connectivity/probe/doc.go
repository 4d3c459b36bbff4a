// Package probe is the subcommand "weft probe", which "kubectl weft check connectivity" runs in pods and on nodes.
//
//	weft probe serve NAME   serves TCP and UDP on connectivity.Port, and the socket of "weft probe flows"
//	weft probe run          reads probes from standard input, sends them, writes their results
//	weft probe flows        starts, reads and stops the flows of the pod's "weft probe serve"
//
// It needs no privileges and no files: the socket is in the abstract namespace, which belongs to the pod's network.
// "serve" sends the flows, so they continue while the API server or kubelet restarts.
package probe
