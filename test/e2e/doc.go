// Package e2e tests Weft in a whole cluster (package test/lab) with real packets: it brings a lab up, runs pods in it, kills
// what Weft consists of, and takes the lab down.
//
//	go test -tags e2e -count=1 -timeout 25m ./test/e2e/...
//
// needs root and the lab's tools (weft-lab tools all). WEFT_E2E_LAB names the lab ("e2e"), WEFT_E2E_KEEP=1 leaves it up for a
// look, and WEFT_E2E_USE=1 takes one that is up. Times of interest are logged: run with -v.
package e2e
