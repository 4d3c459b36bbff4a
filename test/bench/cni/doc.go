// Package cni measures what a pod's start waits for: the wall time of the plugin's process, as the runtime sees it, in a lab with the real
// operator, OVN and agent. The floor is the reference plugin `bridge` with `host-local`, executed in the same node in turns with ours.
//
//	go test -tags e2e -count=1 -timeout 20m -v ./test/bench/cni
//
// needs root and the lab's tools. It makes a lab of its own, named by WEFT_LAB ("bench").
package cni
