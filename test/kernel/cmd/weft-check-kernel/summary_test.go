package main

import (
	"slices"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	output := strings.ReplaceAll(`^=== RUN   TestA
    a_test.go:1: fine
^--- PASS: TestA (0.00s)
^=== RUN   TestB
^=== RUN   TestB/one
^=== NAME  TestB
    b_test.go:1: wrong
^--- FAIL: TestB (0.10s)
^    --- PASS: TestB/one (0.00s)
^=== RUN   TestC
    c_test.go:1: no SCTP
^--- SKIP: TestC (0.00s)
^=== RUN   TestD
^=== RUN   TestD/one
^--- FAIL: TestD/one (0.00s)
^--- FAIL: TestD (0.00s)
^FAIL
`, "^", "\x16")
	s := read(output)
	failed := []string{"    b_test.go:1: wrong\n--- FAIL: TestB (0.10s)\n", "--- FAIL: TestD/one (0.00s)\n--- FAIL: TestD (0.00s)\n"}
	skipped := []string{"    c_test.go:1: no SCTP\n--- SKIP: TestC (0.00s)\n"}
	if s.passed != 1 || !slices.Equal(s.failed, failed) || !slices.Equal(s.skipped, skipped) {
		t.Errorf("read = %+v", s)
	}
}
