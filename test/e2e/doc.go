// Package e2e tests Weft in a whole cluster (package test/lab) with real packets: it brings a lab up, runs pods in it, kills
// what Weft consists of, and takes the lab down. The lab is a bare one, where dist/install.yaml brings OVN and Open vSwitch; the tests that need
// daemons of the lab's own (needLabsDaemons) run in another, after it.
//
//	go test -tags e2e -count=1 -timeout 50m ./test/e2e/...
//
// needs root and the lab's tools (weft-lab tools all). WEFT_E2E_LAB names the lab ("e2e"), WEFT_E2E_KEEP=1 leaves it up for a
// look, or the last of the two, and WEFT_E2E_USE=1 takes one that is up. Times of interest are logged: run with -v.
package e2e
