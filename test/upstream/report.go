package upstream

import (
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
)

// Result is the result of a suite.
type Result struct {
	Suite   string
	Passed  int
	Failed  []string
	Skipped map[string]string // test -> reason, if the test itself reported that it cannot run here
	Took    time.Duration
}

// junit is the part of a report that is read.
type junit struct {
	Suites []struct {
		Cases []struct {
			Name    string `xml:"name,attr"`
			Status  string `xml:"status,attr"`
			Skipped *struct {
				Message string `xml:"message,attr"`
			} `xml:"skipped"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

// read counts the tests of a report. Tests that did not run because they are not in the suite do not count.
func read(path string) (r Result, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	var report junit
	if err := xml.Unmarshal(text, &report); err != nil {
		return r, fmt.Errorf("%s: %w", path, err)
	}
	r.Skipped = map[string]string{}
	for _, suite := range report.Suites {
		for _, test := range suite.Cases {
			if !strings.HasPrefix(test.Name, "[It]") {
				if test.Status != "passed" {
					r.Failed = append(r.Failed, test.Name) // setup or cleanup
				}
				continue
			}
			name := strings.TrimPrefix(test.Name, "[It] ")
			switch {
			case test.Status == "passed":
				r.Passed++
			case test.Skipped != nil && strings.HasPrefix(test.Skipped.Message, "skipped - "):
				r.Skipped[name] = strings.TrimPrefix(test.Skipped.Message, "skipped - ")
			case test.Skipped == nil:
				r.Failed = append(r.Failed, name)
			}
		}
	}
	return r, nil
}

// write prints the results as a table.
func write(out io.Writer, results []Result) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SUITE\tPASSED\tFAILED\tNOT FOR THIS CLUSTER\tTOOK")
	for _, r := range results {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%s\n", r.Suite, r.Passed, len(r.Failed), len(r.Skipped), r.Took.Round(time.Second))
	}
	for _, r := range results {
		for _, name := range r.Failed {
			fmt.Fprintf(table, "failed: %s\n", name)
		}
	}
	return table.Flush()
}
