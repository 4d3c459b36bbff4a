// Package e2e tests Weft in a whole cluster (package test/lab) with real packets. It starts a lab, runs pods in it,
// kills Weft's parts, and removes the lab. The default lab is bare: dist/install.yaml brings OVN and Open vSwitch.
// Tests that need the lab's own daemons (needLabsDaemons) run afterwards in another lab.
//
//	go test -tags e2e -count=1 -timeout 50m ./test/e2e/...
//
// The tests need root and the lab's tools (weft-lab tools all). WEFT_E2E_LAB sets the lab's name ("e2e"), WEFT_E2E_NODES the
// number of its nodes (2). WEFT_E2E_KEEP=1 leaves the last lab running for inspection, and WEFT_E2E_USE=1 uses a lab that already
// runs. The tests log the times that they measure: run with -v.
package e2e
