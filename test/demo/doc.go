// Package demo shows a cluster at work: it runs pods on every node, lets each reach all others, and prints what the
// network looks like in Kubernetes and in OVN.
//
// A pair is one ordered pair of pods, one address family and one kind of check: six pods make 6*5*2*2 = 120. A pair is ok
// when a reply came and, for HTTP, when the pod that was asked answered and saw the caller's own address.
package demo
