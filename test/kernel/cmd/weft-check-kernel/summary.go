package main

import "strings"

// summary is what a package's tests printed. A test is its whole output, with its subtests.
type summary struct {
	passed          int // tests, without their subtests
	skipped, failed []string
}

// read parses the output of a test program with -test.v=test2json (go doc test2json).
func read(output string) (s summary) {
	const mark = "\x16" // before each line that is not printed by a test
	var test strings.Builder
	for line := range strings.Lines(output) {
		plain, marked := strings.CutPrefix(line, mark)
		if marked && strings.HasPrefix(plain, "=== RUN") && !strings.Contains(plain, "/") {
			test.Reset()
		}
		if !marked || !strings.HasPrefix(plain, "=== ") {
			test.WriteString(plain)
		}
		if !marked {
			continue
		}
		switch word, name, _ := strings.Cut(strings.TrimPrefix(plain, "--- "), ":"); {
		case !strings.HasPrefix(plain, "--- "), strings.Contains(name, "/"): // a subtest
		case word == "PASS":
			s.passed++
		case word == "SKIP":
			s.skipped = append(s.skipped, test.String())
		case word == "FAIL":
			s.failed = append(s.failed, test.String())
		}
	}
	return s
}
