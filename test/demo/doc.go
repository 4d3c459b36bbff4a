// Package demo shows a cluster at work: it runs pods on every node, calls every pod from every other, and prints
// what the network looks like in Kubernetes and in OVN.
//
// A pair is an ordered pair of pods, an address family and a kind of check: six pods give 6*5*2*2 = 120 pairs. A
// pair is ok if a reply arrived and, for HTTP, if the called pod itself answered and saw the caller's own address.
package demo
