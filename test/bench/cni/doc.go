// Package cni measures how long a pod's start waits for the network: the wall time of the plugin's process, as the
// runtime sees it, in a lab with the real operator, OVN and agent. The floor is the reference plugin `bridge` with
// `host-local`, run alternately with Weft's on the same node.
//
//	go test -tags e2e -count=1 -timeout 20m -v ./test/bench/cni
//
// The tests need root and the lab's tools. They create their own lab with the name WEFT_LAB ("bench").
package cni
